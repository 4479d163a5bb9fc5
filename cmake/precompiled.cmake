# One precompiled torch/torch.h for all targets that see torch; they take it with
# target_precompile_headers(TARGET REUSE_FROM trireme_precompiled).
file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/precompiled.cpp" CONTENT "// carries the precompiled header\n")
add_library(trireme_precompiled OBJECT "${PROJECT_BINARY_DIR}/precompiled.cpp")
target_link_libraries(trireme_precompiled PRIVATE Libtorch::torch)
target_precompile_headers(trireme_precompiled PRIVATE <torch/torch.h>)
