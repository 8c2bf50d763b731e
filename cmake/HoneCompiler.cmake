# Warnings, caches and sanitizers, the same for every target.

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

find_program(HONE_CCACHE ccache)
if(HONE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${HONE_CCACHE})
  # Precompiled headers are only cached when ccache is told that their time stamps do not matter.
  set(ENV{CCACHE_SLOPPINESS} "pch_defines,time_macros,include_file_mtime,include_file_ctime")
endif()

add_library(hone_flags INTERFACE)
target_compile_options(hone_flags INTERFACE -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
# Everywhere, because gRPC's package sets it too and a precompiled header is only used under the flags it was made with.
target_compile_options(hone_flags INTERFACE -pthread)
target_include_directories(hone_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})

if(HONE_SANITIZER)
  set(hone_sanitizers -fsanitize=${HONE_SANITIZER})
  if(HONE_SANITIZER STREQUAL "fuzzer")  # clang's: coverage for libFuzzer, whose main only the targets of tests/fuzz link
    set(hone_sanitizers -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined)
  endif()
  target_compile_options(hone_flags INTERFACE ${hone_sanitizers} -fno-omit-frame-pointer -g)
  target_link_options(hone_flags INTERFACE ${hone_sanitizers})
endif()

find_program(HONE_LD NAMES ld.lld ld.gold)
if(HONE_LD MATCHES "lld")
  add_link_options(-fuse-ld=lld)
elseif(HONE_LD MATCHES "gold")
  add_link_options(-fuse-ld=gold)
endif()
