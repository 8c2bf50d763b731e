// In cooperative_groups.h already.
#include "../cooperative_groups.h"
