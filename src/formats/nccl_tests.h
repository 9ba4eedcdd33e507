#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/bytes.h"
#include "src/base/collective_kind.h"
#include "src/base/diagnostic.h"
#include "src/base/time.h"
#include "src/calibration/calibration.h"

namespace stepcast::formats {

// Reads the output of nccl-tests' programs (all_reduce_perf and others): text, and JSON files (-J).
//
// Text: the heading determines the columns. Output of old releases ("error" instead of "#wrong", no
// "root") and of new releases (per-iteration columns, a time stamp at the end) can be read.
// Collectives without a reduction may have empty "redop" and "root". Lines may be indented, and may
// begin with time stamps and prefixes of launchers and log collectors: Open MPI's "[1,0]<stdout>:"
// (--tag-output), srun's "0: " (--label), kubectl's "[pod/name/container] " (--prefix). A file may
// contain several runs. A last row with too few columns is ignored, because the log was truncated.
//
// JSON: versions 2 and later. The recorded environment is ignored.
//
// Errors:
//   nccl-tests.no-table: no run in the text.
//   nccl-tests.cut-off: a heading without rows, or a row with too few columns before other rows.
//   nccl-tests.bad-row: an invalid number, a time of zero, a size and a time that contradict the
//     algbw, or a row without a size.
//   nccl-tests.wrong-results: #wrong above zero, or values out of bounds.
//   nccl-tests.failed: a run that ended with an error.
//   nccl-tests.cpu-time: times of the CPU (-C) instead of the collective.
//   file.not-json, input.wrong-kind.

struct NcclTestsRow {
  Bytes size;
  std::optional<Time> out_of_place;
  std::optional<Time> in_place;
  Location location;
};

// Properties of a collective that follow from the rows of its table.
struct NcclTestsTraits {
  std::optional<bool> reduces;  // from the column redop; none without this column
  std::optional<bool> rooted;   // from the column root; none without this column
  double algbw = 0, busbw = 0;  // GB/s in the row with the largest algbw; 0: unknown
};

struct NcclTestsRun {
  std::string program;                       // "all_reduce_perf"; empty: unknown
  std::optional<CollectiveKind> collective;  // from the program's name; none: unknown
  int ranks = 0;                             // 0: unknown
  std::set<std::string> hosts;
  std::string gpu;                 // "NVIDIA H100 80GB HBM3"
  std::string tests_version;       // "2.19.6"; empty: unknown
  std::string nccl_version;        // "2.27.3"; empty: unknown
  std::string started;             // "2026-01-31 12:00:00"; empty: unknown
  std::vector<NcclTestsRow> rows;  // at least one
  NcclTestsTraits traits;
  bool concluded = false;  // the summary after the table is present
  bool cut = false;        // a truncated last row was ignored
  Location location;       // location of the table's heading
};

Result<std::vector<NcclTestsRun>> ParseNcclTests(std::string_view text, const std::string& file);

// Converts runs of nccl-tests to the tables of a calibration profile, one table for each
// combination of collective, number of ranks and number of nodes. If several rows have the same
// size (in several logs or cycles), the table has the mean of their times.

// Deduces the collective of a table from the columns and the ratio busbw / algbw (BusFactor), for
// logs without the program's name. The columns redop and root show whether there is a reduction and
// a root.

struct DeducedCollective {
  std::vector<CollectiveKind> kinds;  // possible collectives
  int ranks = 0;                      // from busbw / algbw; 0: ambiguous
};

// Returns the possible collectives. `ranks` is the number of ranks of the run, or 0 if unknown.
DeducedCollective DeduceCollective(const NcclTestsTraits& traits, int ranks);

struct NcclTestsOptions {
  std::optional<CollectiveKind> collective{};  // used if the log states no collective
  std::optional<int> ranks{};                  // used if the log states no number of ranks
  std::optional<int> ranks_per_node{};         // none: computed from the hosts in the log
  bool in_place = false;                       // use the in-place times
  // Whether to accept a larger size with a shorter time than a smaller size. Both sizes then have
  // the mean of the two times, and the table may be noisier than other tables.
  bool keep_noise = false;
  std::string name{};
  std::string gpu{};  // GPU type; empty: from device names in the logs
};

struct NcclTestsProfile {
  calibration::Calibration profile;  // has only name, gpus, provenance and collectives
  std::vector<std::string> notes;    // about omissions; sentences without a period
};

// Returns the profile of the runs. If a log lacks the program's name, the collective is deduced.
//
// Errors:
//   nccl-tests.no-collective, nccl-tests.no-ranks: neither in the log nor in `options`
//   nccl-tests.bad-group: ranks are not distributed evenly
//   nccl-tests.no-times: no row has the requested times
//   calibration.implausible: see calibration/plausible.h; located at the row
Result<NcclTestsProfile> ProfileOf(const std::vector<NcclTestsRun>& runs,
                                   const NcclTestsOptions& options);

}  // namespace stepcast::formats
