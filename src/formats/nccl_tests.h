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

// Reads the output of nccl-tests' programs (all_reduce_perf and others), and the files that they
// write with -J.
//
// Text: the heading determines the columns. Old releases ("error" for "#wrong", no "root") and new
// ones (per-iteration columns, a time stamp at the end) are therefore read alike. Collectives
// without a reduction may leave "redop" and "root" empty. Lines may be indented, and may have
// prefixes of launchers and log collectors: Open MPI's "[1,0]<stdout>:" (--tag-output), srun's "0:
// " (--label), kubectl's "[pod/name/container] " (--prefix), and time stamps. A file may contain
// several runs. A last row with too few columns, where a log was cut, is left out.
//
// JSON: versions 2 and later. The recorded environment is ignored.
//
// Mistakes:
// - nccl-tests.no-table: no run in the text.
// - nccl-tests.cut-off: a heading without rows, or a row with too few columns before other rows.
// - nccl-tests.bad-row: an invalid figure, a time of zero, a size and a time that contradict the
//   algbw, or a row without a size.
// - nccl-tests.wrong-results: #wrong above zero, or values out of bounds.
// - nccl-tests.failed: a run that ended with an error.
// - nccl-tests.cpu-time: -C, times of the CPU, not of the collective.
// - file.not-json, input.wrong-kind.

struct NcclTestsRow {
  Bytes size;
  std::optional<Time> out_of_place;
  std::optional<Time> in_place;
  Location location;
};

// The properties of a collective that the rows of its table show.
struct NcclTestsTraits {
  std::optional<bool> reduces;  // from redop; none: no such column
  std::optional<bool> rooted;   // from root; none: no such column
  double algbw = 0, busbw = 0;  // GB/s, of the row with the largest values; 0: unknown
};

struct NcclTestsRun {
  std::string program;                       // "all_reduce_perf"; empty: unknown
  std::optional<CollectiveKind> collective;  // from the program; none: unknown
  int ranks = 0;                             // 0: unknown
  std::set<std::string> hosts;
  std::string gpu;                 // "NVIDIA H100 80GB HBM3"
  std::string tests_version;       // "2.19.6"; empty: unknown
  std::string nccl_version;        // "2.27.3"; empty: unknown
  std::string started;             // "2026-01-31 12:00:00"; empty: unknown
  std::vector<NcclTestsRow> rows;  // at least one
  NcclTestsTraits traits;
  bool concluded = false;  // the summary below the table is present
  bool cut = false;        // the last row was cut off, and is omitted
  Location location;       // of the table's heading
};

Result<std::vector<NcclTestsRun>> ParseNcclTests(std::string_view text, const std::string& file);

// Converts runs of nccl-tests to the tables of a calibration profile. There is one table for each
// collective, number of ranks and number of nodes. If several rows have the same size (from several
// logs or cycles), the time is their mean.

// Deduces the collective of a table if no line of the log names the program. The columns redop and
// root show whether there is a reduction and whether there is a root. The ratio of busbw to algbw
// (BusFactor) shows which collectives are possible with which number of ranks.

struct DeducedCollective {
  std::vector<CollectiveKind> kinds;  // possible collectives
  int ranks = 0;                      // from busbw over algbw; 0: ambiguous
};

// Returns the collectives that are possible. `ranks` is the number of ranks of the run, or 0 if it
// is unknown.
DeducedCollective DeduceCollective(const NcclTestsTraits& traits, int ranks);

struct NcclTestsOptions {
  std::optional<CollectiveKind> collective{};  // if the log has none
  std::optional<int> ranks{};                  // likewise
  std::optional<int> ranks_per_node{};         // none: from the log's hosts
  bool in_place = false;                       // instead of out of place
  // Whether a larger size that took less time than a smaller one is accepted: both then get their
  // mean. The table may be noisier than is otherwise allowed.
  bool keep_noise = false;
  std::string name{};
  std::string gpu{};  // the GPU type; empty: from device names in the logs
};

struct NcclTestsProfile {
  calibration::Calibration profile;  // only name, gpus, provenance and collectives
  std::vector<std::string> notes;    // what was left out, as sentences without a full stop
};

// If no line names the program, the collective is deduced from the rows.
//
// Mistakes: nccl-tests.no-collective and nccl-tests.no-ranks (in neither log nor options),
// nccl-tests.bad-group (ranks are not distributed evenly), nccl-tests.no-times (no row has the
// requested times), calibration.implausible (calibration/plausible.h), at the row.
Result<NcclTestsProfile> ProfileOf(const std::vector<NcclTestsRun>& runs,
                                   const NcclTestsOptions& options);

}  // namespace stepcast::formats
