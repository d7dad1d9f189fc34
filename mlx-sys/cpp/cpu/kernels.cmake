# The CPU's kernels, threads and products, which need no MLX. Sets TROUPE_CPU to their sources and objects.

add_compile_options(-Wall -Wextra -Wno-unused-parameter -ffp-contract=off)

# Options of the inner loops, which are compiled once for each instruction set.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(KERNEL_OPTIONS -Wno-maybe-uninitialized)  # GCC 12 warns of its own intrinsics.
endif()

function(add_kernels isa)
  list(TRANSFORM KERNEL_FILES PREPEND ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/kernels/ OUTPUT_VARIABLE files)
  add_library(kernels_${isa} OBJECT ${files})
  target_include_directories(kernels_${isa} PRIVATE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/..)
  target_compile_definitions(kernels_${isa} PRIVATE TROUPE_ISA=${isa})
  target_compile_options(kernels_${isa} PRIVATE ${KERNEL_OPTIONS} ${ARGN})
  list(APPEND TROUPE_CPU $<TARGET_OBJECTS:kernels_${isa}>)
  set(TROUPE_CPU ${TROUPE_CPU} PARENT_SCOPE)
endfunction()

set(KERNEL_FILES
  attention.cc dense.cc kv.cc limits.cc linear.cc packed.cc quantize.cc rows.cc table.cc vocabulary.cc)
set(TROUPE_CPU
  cores.cc dense.cc dispatch.cc limits.cc linear.cc logit_row.cc packed.cc pool.cc sampling.cc selection.cc
  turns.cc)
list(TRANSFORM TROUPE_CPU PREPEND ${CMAKE_CURRENT_LIST_DIR}/)

add_kernels(base)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  add_kernels(v3 -march=x86-64-v3)
  add_kernels(v3vnni -march=x86-64-v3 -mavxvnni)
  add_kernels(v4 -march=x86-64-v4)
  add_kernels(v4vnni -march=x86-64-v4 -mavx512vnni)
elseif(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  add_kernels(dotprod -march=armv8.2-a+dotprod)
endif()
