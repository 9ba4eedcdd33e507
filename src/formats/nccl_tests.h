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

// The output of nccl-tests' programs (all_reduce_perf and its like), and the files they write with
// -J.
//
// Text: the columns are those that the heading names, so old releases ("error" for "#wrong", no
// "root") and new ones (per-iteration columns, a time stamp at the end) are read alike; collectives
// without a reduction may leave "redop" and "root" empty. Lines may be indented, and begin with
// what launchers and log collectors put before them: Open MPI's "[1,0]<stdout>:" (--tag-output),
// srun's "0: " (--label), kubectl's "[pod/name/container] " (--prefix) and time stamps. A file may
// hold several runs after each other. A last row with too few columns, where a log was cut, is left
// out.
//
// JSON: versions 2 and later. The environment that it records is not looked at.
//
// Mistakes: nccl-tests.no-table (no run in the text), nccl-tests.cut-off (a heading without rows, a
// row with too few columns before others), nccl-tests.bad-row (a figure that is none, a time of
// zero, a size and a time that do not give the algbw beside them; a line that begins like a row but
// not with a size), nccl-tests.wrong-results (#wrong above zero, or values out of bounds),
// nccl-tests.failed (a run that ended with an error), nccl-tests.cpu-time
// (-C: times of the CPU, not of the collective); file.not-json, input.wrong-kind.

struct NcclTestsRow {
  Bytes size;
  std::optional<Time> out_of_place;
  std::optional<Time> in_place;
  Location location;
};

// What rows say of their collective.
struct NcclTestsTraits {
  std::optional<bool> reduces;  // by redop; none: there is no such column
  std::optional<bool> rooted;   // by root, likewise
  double algbw = 0, busbw = 0;  // GB/s, of the row where they are largest; 0: not told
};

struct NcclTestsRun {
  std::string program;                       // "all_reduce_perf"; empty: not told
  std::optional<CollectiveKind> collective;  // by the program; none: not told, or not known
  int ranks = 0;                             // 0: not told
  std::set<std::string> hosts;
  std::string gpu;                 // "NVIDIA H100 80GB HBM3"
  std::string tests_version;       // "2.19.6"; empty: not told
  std::string nccl_version;        // "2.27.3"; empty: not told
  std::string started;             // "2026-01-31 12:00:00"; empty: not told
  std::vector<NcclTestsRow> rows;  // at least one
  NcclTestsTraits traits;
  bool concluded = false;  // the summary below the table is there
  bool cut = false;        // the last row was cut, and is left out
  Location location;       // of the table's heading
};

Result<std::vector<NcclTestsRun>> ParseNcclTests(std::string_view text, const std::string& file);

// Runs of nccl-tests as the tables of a calibration profile: one for each collective, number of
// ranks and number of nodes. Where several rows have a size (several logs, several cycles), the
// time is their mean.

// Which collective a table of nccl-tests is of, where no line of the log names the program: its
// rows say whether there was a reduction (redop), whether there was a root, and by busbw over algbw
// (BusFactor) which collectives it may be on how many ranks.

struct DeducedCollective {
  std::vector<CollectiveKind> kinds;  // that it may be
  int ranks = 0;                      // as busbw over algbw says; 0: that does not tell
};

// `ranks` of the run, 0 where that is not known.
DeducedCollective DeduceCollective(const NcclTestsTraits& traits, int ranks);

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

// Where no line names the program, its rows may tell (nccl_tests.h).
//
// Mistakes: nccl-tests.no-collective and nccl-tests.no-ranks (neither log nor options tell),
// nccl-tests.bad-group (ranks are not dealt out evenly), nccl-tests.no-times (no row has the times
// asked for), calibration.implausible (calibration/plausible.h), at the row.
Result<NcclTestsProfile> ProfileOf(const std::vector<NcclTestsRun>& runs,
                                   const NcclTestsOptions& options);

}  // namespace stepcast::formats
