#include "src/nccl/search.h"

namespace stepcast::nccl {
namespace {

constexpr double kIntra[] = {40, 30, 20, 18, 15, 12, 10, 9, 7, 6, 5, 4, 3};
constexpr double kInter[] = {48, 30, 28, 24, 20, 18,  15,  12,   10,  9,
                             7,  6,  5,  4,  3,  2.4, 1.2, 0.24, 0.12};

constexpr double kHopperIntra[] = {60, 50, 40, 30, 24, 20, 15, 12, 11, 6, 3};
constexpr double kHopperInter[] = {48, 45, 42, 40, 30,  24,  22,   20,  17.5,
                                   15, 12, 6,  3,  2.4, 1.2, 0.24, 0.12};

constexpr double kBlackwellIntra[] = {90, 80, 70, 60, 50, 45, 40, 30, 24, 20, 19, 18};
constexpr double kBlackwellInter[] = {96, 86,   80, 48, 45.1, 42, 40,  30,  24,   22,
                                      20, 17.5, 15, 12, 6,    3,  2.4, 1.2, 0.24, 0.12};
// Before 2.30.
constexpr double kOldBlackwellIntra[] = {90, 80, 70, 60, 50, 40, 30, 24, 20, 19, 18};
constexpr double kOldBlackwellInter[] = {96,   48, 45.1, 42, 40, 30,  24,  22,   20,
                                         17.5, 15, 12,   6,  3,  2.4, 1.2, 0.24, 0.12};

}  // namespace

std::span<const double> SearchSpeeds(Version version, Generation generation, bool across_nodes) {
  switch (generation) {
    case Generation::kVolta:
    case Generation::kAmpere:
      return across_nodes ? std::span<const double>(kInter) : kIntra;
    case Generation::kHopper:
      return across_nodes ? std::span<const double>(kHopperInter) : kHopperIntra;
    case Generation::kBlackwell:
      // Releases that do not know Blackwell treat it as Hopper.
      if (version < Version::kV227) return SearchSpeeds(version, Generation::kHopper, across_nodes);
      if (version < Version::kV230) {
        return across_nodes ? std::span<const double>(kOldBlackwellInter) : kOldBlackwellIntra;
      }
      return across_nodes ? std::span<const double>(kBlackwellInter) : kBlackwellIntra;
  }
  return {};
}

}  // namespace stepcast::nccl
