#pragma once

// For tests that use torch: torch first, because its headers define CHECK, which Catch2 then takes back.

#include "cmake/torch_pch.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
