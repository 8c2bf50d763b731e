// Of the driver interface candidates may name nothing (docs/rules.md, runtime_control); what includes it wants the runtime.
#include <musa_runtime.h>
