# Finds libtorch 2.13 or 2.14 without find_package(Torch), which demands nvcc on CUDA wheels.
# Looks in LIBTORCH_ROOT (a folder with include/ and lib/), then in the Python of TRIREME_PYTHON, of .venv or of the PATH.
# Defines Libtorch::torch, LIBTORCH_ROOT, LIBTORCH_VERSION. Installed with Trireme: its package config includes this file.
set(LIBTORCH_ROOT "$ENV{LIBTORCH_ROOT}" CACHE PATH "the torch folder: include/, lib/")
set(TRIREME_PYTHON "" CACHE FILEPATH "the Python that has torch installed")

if(NOT LIBTORCH_ROOT)
  set(python "${TRIREME_PYTHON}")
  if(NOT python AND EXISTS "${PROJECT_SOURCE_DIR}/.venv/bin/python")
    set(python "${PROJECT_SOURCE_DIR}/.venv/bin/python")
  endif()
  if(NOT python)
    set(python python3)
  endif()
  execute_process(
    COMMAND ${python} -c "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(found)
    set(LIBTORCH_ROOT "${found}" CACHE PATH "" FORCE)
  endif()
endif()
if(NOT EXISTS "${LIBTORCH_ROOT}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "no libtorch found (LIBTORCH_ROOT is '${LIBTORCH_ROOT}'); run `make build`, which installs one, or set LIBTORCH_ROOT to a torch 2.13 or 2.14 folder")
endif()

file(STRINGS "${LIBTORCH_ROOT}/include/torch/headeronly/version.h" lines REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX REPLACE "[^0-9;]" "" numbers "${lines}")
string(REPLACE ";" "." LIBTORCH_VERSION "${numbers}")
if(NOT LIBTORCH_VERSION MATCHES "^2\\.1[34]\\.")
  message(FATAL_ERROR "libtorch ${LIBTORCH_VERSION} in ${LIBTORCH_ROOT} is not supported; use torch 2.13 or 2.14")
endif()
message(STATUS "libtorch ${LIBTORCH_VERSION}: ${LIBTORCH_ROOT}")

add_library(Libtorch::torch INTERFACE IMPORTED)
target_include_directories(Libtorch::torch SYSTEM INTERFACE "${LIBTORCH_ROOT}/include"
                                                            "${LIBTORCH_ROOT}/include/torch/csrc/api/include")
target_compile_definitions(Libtorch::torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
# the wheel's own RPATH finds the CUDA libraries that a CUDA wheel's libtorch_cpu needs
target_link_libraries(Libtorch::torch INTERFACE "${LIBTORCH_ROOT}/lib/libtorch_cpu.so" "${LIBTORCH_ROOT}/lib/libc10.so"
                                                "-Wl,--allow-shlib-undefined")
