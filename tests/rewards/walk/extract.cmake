# cmake -DPAGE=docs/add_a_reward.md -DREGISTRY=rewards/terms/registry.cc -DOUT=folder -P extract.cmake
# Takes the files of the walk out of the page, and a copy of the registry with its two lines put in.

file(READ ${PAGE} page)

# The code block that follows `marker`.
function(block_after marker result)
  string(FIND "${page}" "${marker}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${PAGE} has no '${marker}'")
  endif()
  string(SUBSTRING "${page}" ${at} -1 rest)
  string(FIND "${rest}" "```" open)
  string(SUBSTRING "${rest}" ${open} -1 rest)
  string(FIND "${rest}" "\n" line_end)
  math(EXPR line_end "${line_end} + 1")
  string(SUBSTRING "${rest}" ${line_end} -1 rest)
  string(FIND "${rest}" "```" close)
  string(SUBSTRING "${rest}" 0 ${close} code)
  set(${result} "${code}" PARENT_SCOPE)
endfunction()

foreach(path rewards/terms/certainty.h rewards/terms/certainty.cc tests/rewards/terms/certainty_test.cc)
  block_after("<!-- file: ${path} -->" code)
  file(WRITE ${OUT}/${path} "${code}")
endforeach()
block_after("<!-- yaml -->" yaml)
file(WRITE ${OUT}/mine.yaml "${yaml}")

block_after("<!-- include -->" include_line)
block_after("<!-- register -->" registration)
file(READ ${REGISTRY} registry)
string(REPLACE "#include \"rewards/terms/term.h\"\n" "#include \"rewards/terms/term.h\"\n${include_line}" patched "${registry}")
string(REPLACE "  };\n  return terms;" "${registration}  };\n  return terms;" patched "${patched}")
string(FIND "${patched}" "${registration}" at)
if(at EQUAL -1)
  message(FATAL_ERROR "${REGISTRY} does not look as the walk says")
endif()
file(WRITE ${OUT}/registry.cc "${patched}")
