# Where the programs lie in the build, and what `cmake --install build` installs: the programs, every module's library
# and headers, and a package that another project finds with find_package(Trireme) and links as Trireme::trireme.
foreach(program trireme trireme-rank)
  if(TARGET ${program})
    set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
    install(TARGETS ${program})
  endif()
endforeach()

if(TRIREME_TORCH)
  include(CMakePackageConfigHelpers)
  set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/Trireme")
  get_property(modules GLOBAL PROPERTY TRIREME_MODULES)

  # the one target that a user links: every module
  add_library(trireme_library INTERFACE)
  set_target_properties(trireme_library PROPERTIES EXPORT_NAME trireme)
  target_link_libraries(trireme_library INTERFACE ${modules})
  target_compile_features(trireme_library INTERFACE cxx_std_20)
  add_library(Trireme::trireme ALIAS trireme_library)

  install(TARGETS ${modules} trireme_library EXPORT TriremeTargets)
  install(EXPORT TriremeTargets NAMESPACE Trireme:: DESTINATION ${package_dir})
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/trireme" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h"
          PATTERN "*_fixture.h" EXCLUDE PATTERN "test_*.h" EXCLUDE)

  configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/TriremeConfig.cmake.in" "${PROJECT_BINARY_DIR}/TriremeConfig.cmake"
                                INSTALL_DESTINATION ${package_dir})
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/TriremeConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/TriremeConfig.cmake" "${PROJECT_BINARY_DIR}/TriremeConfigVersion.cmake"
                "${CMAKE_CURRENT_LIST_DIR}/FindLibtorch.cmake" DESTINATION ${package_dir})
endif()
