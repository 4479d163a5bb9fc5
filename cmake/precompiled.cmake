# One precompiled header for all targets that see torch; they take it with trireme_use_precompiled(TARGET). Not
# torch/torch.h: g++ instantiates again in every file what its inline functions need, 12 s each time.
file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/precompiled.cpp" CONTENT "// carries the precompiled header\n")
add_library(trireme_precompiled OBJECT "${PROJECT_BINARY_DIR}/precompiled.cpp")
target_link_libraries(trireme_precompiled PRIVATE Libtorch::torch)
target_precompile_headers(trireme_precompiled PRIVATE <ATen/ATen.h> <torch/nn/module.h>)

# A program is compiled with -fPIE by default, the header with -fPIC: it would be passed over.
function(trireme_use_precompiled target)
  target_precompile_headers(${target} REUSE_FROM trireme_precompiled)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
endfunction()
