# Compiler settings that every target shares; ccache and mold are used where they are present.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
add_compile_options(-Wall -Wextra)
# a * b + c keeps two roundings in every kernel, so that results do not depend on the instruction set picked at run time
add_compile_options(-ffp-contract=off)
if(TRIREME_WERROR)
  add_compile_options(-Werror)
endif()
# fuzz: address, undefined and the coverage that tests/fuzz/driver.cpp reads
if(TRIREME_SANITIZE STREQUAL "thread")
  set(sanitizers -fsanitize=thread)
elseif(TRIREME_SANITIZE MATCHES "^(address|fuzz)$")
  set(sanitizers -fsanitize=address,undefined -fno-sanitize-recover=undefined)
elseif(TRIREME_SANITIZE)
  message(FATAL_ERROR "TRIREME_SANITIZE is '${TRIREME_SANITIZE}'; allowed: address, thread, fuzz")
endif()
if(TRIREME_SANITIZE)
  add_compile_options(${sanitizers} -fno-omit-frame-pointer -g)
  add_link_options(${sanitizers})
endif()
if(TRIREME_SANITIZE STREQUAL "fuzz")
  add_compile_options(-fsanitize-coverage=trace-pc)
endif()
# an installed program finds libtorch where the build found it
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

# a file that sees torch takes 1.3 GB to compile: no more of them at once than memory holds
cmake_host_system_information(RESULT cores QUERY NUMBER_OF_LOGICAL_CORES)
cmake_host_system_information(RESULT memory QUERY TOTAL_PHYSICAL_MEMORY) # MiB
math(EXPR jobs "${memory} / 1600")
if(jobs GREATER cores)
  set(jobs ${cores})
elseif(jobs LESS 1)
  set(jobs 1)
endif()
set_property(GLOBAL PROPERTY JOB_POOLS compile=${jobs})
set(CMAKE_JOB_POOL_COMPILE compile)

find_program(CCACHE ccache)
if(CCACHE)
  # precompiled headers need the sloppiness settings; paths below the source folder count relative, so that clones share
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1 ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()
