# Finds libtorch inside the Python that HONE_PYTHON names (or the active python3) and makes the target hone_torch.
# Headers are SYSTEM: torch's warnings are not ours. The rpath points at the torch found here; HONE_TORCH_LIB (read by
# the `hone` launcher at start) overrides it on another machine.

if(HONE_PYTHON STREQUAL "")
  find_program(HONE_PYTHON_FOUND NAMES python3 REQUIRED)
  set(HONE_PYTHON ${HONE_PYTHON_FOUND} CACHE FILEPATH "" FORCE)
endif()
execute_process(
  COMMAND ${HONE_PYTHON} -c "import os, torch; print(os.path.dirname(torch.__file__)); print(torch.__version__)"
  OUTPUT_VARIABLE torch_facts ERROR_VARIABLE torch_error RESULT_VARIABLE torch_result OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT torch_result EQUAL 0)
  message(FATAL_ERROR "${HONE_PYTHON} has no torch: run deploy/setup/setup.sh, or configure with -DHONE_WITH_TORCH=OFF")
endif()
string(REPLACE "\n" ";" torch_facts "${torch_facts}")
list(GET torch_facts 0 HONE_TORCH_DIR)
list(GET torch_facts 1 HONE_TORCH_VERSION)
message(STATUS "torch ${HONE_TORCH_VERSION} in ${HONE_TORCH_DIR}")

add_library(hone_torch INTERFACE)
target_include_directories(hone_torch SYSTEM INTERFACE
  ${HONE_TORCH_DIR}/include ${HONE_TORCH_DIR}/include/torch/csrc/api/include)
target_link_libraries(hone_torch INTERFACE ${HONE_TORCH_DIR}/lib/libtorch_cpu.so ${HONE_TORCH_DIR}/lib/libc10.so)
target_link_options(hone_torch INTERFACE "LINKER:-rpath,${HONE_TORCH_DIR}/lib")

# Compiled once, reused by every target with TORCH (hone_use_torch).
add_library(hone_torch_pch OBJECT ${CMAKE_CURRENT_LIST_DIR}/torch_pch.cc)
target_link_libraries(hone_torch_pch PRIVATE hone_flags hone_torch)
target_precompile_headers(hone_torch_pch PRIVATE ${CMAKE_CURRENT_LIST_DIR}/torch_pch.h)
