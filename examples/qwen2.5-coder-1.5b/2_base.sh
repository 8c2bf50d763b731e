#!/usr/bin/env bash
# The base model, evaluated.
"$(dirname "$0")/evaluate.sh" before "$@"
