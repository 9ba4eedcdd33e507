#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/base/collective_kind.h"
#include "src/base/diagnostic.h"
#include "src/calibration/calibration.h"
#include "src/formats/nccl_tests.h"

// Runs of nccl-tests as the tables of a calibration profile: one for each collective, number of
// ranks and number of nodes. Where several rows have a size (several logs, several cycles), the
// time is their mean.
namespace stepcast::formats {

struct NcclTestsOptions {
  std::optional<CollectiveKind> collective{};  // where a log does not tell
  std::optional<int> ranks{};                  // likewise
  std::optional<int> ranks_per_node{};         // none: as the log's hosts have it
  bool in_place = false;                       // instead of out of place
  // Where a larger size took less time than a smaller one, both count with their mean, and what
  // would be too noisy for a table can be one.
  bool keep_noise = false;
  std::string name{};
  std::string gpu{};  // the GPU type; empty: as the logs tell, by the device's name
};

struct NcclTestsProfile {
  calibration::Calibration profile;  // name, gpus, provenance and collectives alone
  std::vector<std::string> notes;    // sentences without a full stop: what was left out
};

// Where no line names the program, its rows may tell (nccl_tests_collective.h).
//
// Mistakes: nccl-tests.no-collective and nccl-tests.no-ranks (neither log nor options tell),
// nccl-tests.bad-group (ranks are not dealt out evenly), nccl-tests.no-times (no row has the times
// asked for), calibration.implausible (calibration/plausible.h), at the row.
Result<NcclTestsProfile> ProfileOf(const std::vector<NcclTestsRun>& runs,
                                   const NcclTestsOptions& options);

}  // namespace stepcast::formats
