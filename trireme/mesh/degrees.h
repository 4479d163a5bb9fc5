#pragma once

namespace trireme::mesh {

/// Sizes of the parallel axes, under Megatron's names. world = tp · cp · dp · pp.
/// ep and etp are not further factors but a second view of the same ranks: world = etp · ep · edp · pp.
struct Degrees {
  int tp = 1;   ///< tensor parallel
  int cp = 1;   ///< context parallel
  int dp = 1;   ///< data parallel
  int pp = 1;   ///< pipeline stages
  int ep = 1;   ///< expert parallel
  int etp = 1;  ///< tensor parallel inside an expert

  friend bool operator==(const Degrees&, const Degrees&) = default;
};

}  // namespace trireme::mesh
