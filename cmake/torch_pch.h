#pragma once

// What every file that uses torch sees, compiled once: tensors, operators, autograd. Not torch::nn, not torch::optim.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/grad_mode.h>

// torch's CHECK would take the place of Catch2's.
#ifdef CHECK
#undef CHECK
#endif
