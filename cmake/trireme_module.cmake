# trireme_module(NAME DEPENDS modules... [TEST_DEPENDS modules...] [LIBRARIES targets...] [WITHOUT files...] [TORCH])
#
# One folder = one module = one library `trireme_NAME`. DEPENDS is the only rule of layering: tests/check_includes.py
# reads it and fails on an #include of a module that is not named here. TEST_DEPENDS: what only the tests include.
# WITHOUT: files that this build does not have, such as a backend whose library was not found. TORCH: the module includes libtorch's headers. Every *_test.cpp of the folder goes into one program, NAME_test.
# main.cpp and *_fuzz.cpp are not part of the library.
set_property(GLOBAL PROPERTY TRIREME_MODULES "")

function(trireme_module name)
  cmake_parse_arguments(ARG "TORCH" "" "DEPENDS;TEST_DEPENDS;LIBRARIES;WITHOUT" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cpp)
  file(GLOB tests CONFIGURE_DEPENDS *_test.cpp)
  file(GLOB mains CONFIGURE_DEPENDS main.cpp *_fuzz.cpp)
  list(TRANSFORM ARG_WITHOUT PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  list(REMOVE_ITEM sources ${tests} ${mains} ${ARG_WITHOUT})

  set(library trireme_${name})
  set(scope PUBLIC)
  if(sources)
    add_library(${library} STATIC ${sources})
  else()
    add_library(${library} INTERFACE)
    set(scope INTERFACE)
  endif()
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(${library} ${scope} $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                 $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  list(TRANSFORM ARG_DEPENDS PREPEND trireme_)
  target_link_libraries(${library} ${scope} ${ARG_DEPENDS} ${ARG_LIBRARIES})
  if(ARG_TORCH)
    target_link_libraries(${library} ${scope} Libtorch::torch)
    if(sources)
      trireme_use_precompiled(${library})
    endif()
  endif()
  set_property(GLOBAL APPEND PROPERTY TRIREME_MODULES ${library})

  if(TRIREME_TESTS AND tests)
    list(TRANSFORM ARG_TEST_DEPENDS PREPEND trireme_)
    set(torch ${ARG_TORCH})
    trireme_test_program(${name}_test SOURCES ${tests} LIBRARIES ${library} ${ARG_TEST_DEPENDS} TORCH ${torch})
  endif()
endfunction()

# trireme_test_program(NAME SOURCES files... LIBRARIES targets... TORCH bool): a GoogleTest program that ctest runs.
# Its results lie in build/test_results/NAME.json, where the check of tests/cases.tsv reads which tests ran.
function(trireme_test_program name)
  cmake_parse_arguments(ARG "" "TORCH" "SOURCES;LIBRARIES" ${ARGN})
  add_executable(${name} EXCLUDE_FROM_ALL ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LIBRARIES} GTest::gtest GTest::gtest_main)
  if(ARG_TORCH)
    target_link_libraries(${name} PRIVATE trireme_test_harness)
    trireme_use_precompiled(${name})
  endif()
  add_dependencies(tests ${name})
  add_test(NAME ${name} COMMAND ${name} --gtest_output=json:${PROJECT_BINARY_DIR}/test_results/${name}.json)
  set_tests_properties(${name} PROPERTIES TIMEOUT 240 ENVIRONMENT XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/cache)
  set_property(GLOBAL APPEND PROPERTY TRIREME_TEST_PROGRAMS ${name})
endfunction()
