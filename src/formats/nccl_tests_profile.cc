#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "src/base/nccl_tests_convention.h"
#include "src/calibration/plausible.h"
#include "src/formats/gpu_models.h"
#include "src/formats/nccl_tests.h"

namespace stepcast::formats {
namespace {

struct Form {
  CollectiveKind kind;
  bool reduces;
  bool rooted;
};
// How the programs of nccl-tests fill the columns redop and root (src/*.cu).
constexpr Form kForms[] = {
    {CollectiveKind::kAllReduce, true, false}, {CollectiveKind::kReduceScatter, true, false},
    {CollectiveKind::kReduce, true, true},     {CollectiveKind::kAllGather, false, false},
    {CollectiveKind::kAllToAll, false, false}, {CollectiveKind::kSendRecv, false, false},
    {CollectiveKind::kBroadcast, false, true}, {CollectiveKind::kScatter, false, true},
    {CollectiveKind::kGather, false, true},
};

constexpr int kMostRanks = 1 << 20;

// The ratio of busbw to algbw, each printed with two digits after the decimal point.
struct Ratio {
  double low = 0;
  double high = 0;
  bool Holds(double factor) const { return factor >= low && factor <= high; }
};
Ratio RatioOf(double algbw, double busbw) {
  constexpr double kRounding = 0.0051;
  return {.low = (busbw - kRounding) / (algbw + kRounding),
          .high = algbw > kRounding ? (busbw + kRounding) / (algbw - kRounding) : HUGE_VAL};
}

// The range of ranks for which a collective has that ratio; {2, 1} if empty. The factor never falls
// with the ranks.
struct Ranks {
  int first = 2;
  int last = 1;
};
Ranks RanksOf(CollectiveKind kind, const Ratio& ratio) {
  const auto first_with = [&](auto enough) {
    int low = 2;
    int high = kMostRanks;
    while (low < high) {
      const int middle = low + (high - low) / 2;
      if (enough(BusFactor(kind, middle))) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  };
  const int first = first_with([&](double factor) { return factor >= ratio.low; });
  const int beyond = first_with([&](double factor) { return factor > ratio.high; });
  if (!ratio.Holds(BusFactor(kind, first))) return {};
  return {first, beyond == kMostRanks ? beyond : beyond - 1};
}

}  // namespace

DeducedCollective DeduceCollective(const NcclTestsTraits& traits, int ranks) {
  DeducedCollective deduced;
  if (!traits.reduces && !traits.rooted) return deduced;
  const bool known = traits.algbw > 0;
  const Ratio ratio = RatioOf(traits.algbw, traits.busbw);
  for (const Form& form : kForms) {
    if (traits.reduces.value_or(form.reduces) != form.reduces) continue;
    if (traits.rooted.value_or(form.rooted) != form.rooted) continue;
    if (!known) {
      deduced.kinds.push_back(form.kind);
      continue;
    }
    if (ranks > 1) {
      if (ratio.Holds(BusFactor(form.kind, ranks))) deduced.kinds.push_back(form.kind);
      continue;
    }
    const Ranks possible = RanksOf(form.kind, ratio);
    if (possible.first > possible.last) continue;
    deduced.kinds.push_back(form.kind);
    deduced.ranks = possible.first == possible.last ? possible.first : 0;
  }
  if (deduced.kinds.size() != 1) deduced.ranks = 0;
  return deduced;
}

namespace {

// The rows of one size.
struct Point {
  std::int64_t picoseconds = 0;  // their sum
  std::int64_t rows = 0;
  Location location;  // of the first
};

using Shape = std::tuple<CollectiveKind, int, int>;  // ranks, nodes

class Merger {
 public:
  explicit Merger(const NcclTestsOptions& options) : options_(options) {}

  Result<NcclTestsProfile> Run(const std::vector<NcclTestsRun>& runs) {
    for (const NcclTestsRun& run : runs) Add(run);
    if (!mistakes_.empty()) return tl::unexpected(std::move(mistakes_));
    MakeTables();
    MakeProvenance(runs);
    CheckTables();
    if (!mistakes_.empty()) return tl::unexpected(std::move(mistakes_));
    return std::move(result_);
  }

 private:
  void Report(std::string code, Location location, std::string message, std::string hint) {
    mistakes_.push_back(
        {std::move(code), std::move(location), std::move(message), std::move(hint)});
  }
  void Note(std::string note) {
    if (std::find(result_.notes.begin(), result_.notes.end(), note) == result_.notes.end()) {
      result_.notes.push_back(std::move(note));
    }
  }

  static std::string NamesOf(std::span<const CollectiveKind> kinds) {
    std::string names;
    for (const CollectiveKind kind : kinds) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", Name(kind));
    }
    return names;
  }

  // The collective from the program, the options or the rows, in this order; a mistake if none
  // determines it.
  std::optional<CollectiveKind> CollectiveOf(const NcclTestsRun& run,
                                             const DeducedCollective& deduced) {
    if (options_.collective) return options_.collective;
    if (run.collective) return run.collective;
    if (!run.program.empty()) {
      Report("nccl-tests.no-collective", run.location,
             fmt::format("a profile cannot contain measurements of the collective {}",
                         Quoted(run.program)),
             fmt::format("specify the collective with --op: {}", NamesOf(kCollectiveKinds)));
      return std::nullopt;
    }
    if (deduced.kinds.size() == 1) {
      Note(
          fmt::format("{}: the log does not specify the collective of the table in line {}. "
                      "Assumed from the columns redop and root and the ratio busbw/algbw: {}",
                      run.location.file, run.location.line, Name(deduced.kinds.front())));
      return deduced.kinds.front();
    }
    const bool some = !deduced.kinds.empty();
    Report("nccl-tests.no-collective", run.location,
           some ? fmt::format(
                      "the log does not specify the measured collective; possible collectives: {}",
                      NamesOf(deduced.kinds))
                : "the log does not specify the measured collective",
           fmt::format("specify the collective with --op: {}",
                       some ? NamesOf(deduced.kinds) : NamesOf(kCollectiveKinds)));
    return std::nullopt;
  }

  std::optional<Shape> ShapeOf(const NcclTestsRun& run) {
    const int told = run.ranks > 0 ? run.ranks : options_.ranks.value_or(0);
    const DeducedCollective deduced = DeduceCollective(run.traits, told);
    const auto collective = CollectiveOf(run, deduced);
    if (!collective) return std::nullopt;
    const bool by_rows = told == 0 && deduced.ranks > 0 && *collective == deduced.kinds.front();
    const int ranks = by_rows ? deduced.ranks : told;
    if (by_rows) {
      Note(
          fmt::format("{}: the log does not specify the number of ranks of the table in line {}. "
                      "Assumed from the ratio busbw/algbw: {} ranks",
                      run.location.file, run.location.line, ranks));
    }
    if (ranks < 2) {
      Report("nccl-tests.no-ranks", run.location,
             ranks == 0 ? "the log does not specify the number of ranks"
                        : "a single rank does not communicate",
             ranks == 0 ? "add --ranks N" : "measure with several ranks");
      return std::nullopt;
    }
    int nodes = std::max(static_cast<int>(run.hosts.size()), 1);
    if (options_.ranks_per_node) {
      const int per_node = *options_.ranks_per_node;
      if (per_node < 1 || ranks % per_node != 0) {
        Report("nccl-tests.bad-group", run.location,
               fmt::format("the number of ranks, {}, is not divisible by --ranks-per-node {}",
                           ranks, per_node),
               "set --ranks-per-node to a divisor of the number of ranks");
        return std::nullopt;
      }
      if (!run.hosts.empty() && nodes != ranks / per_node) {
        Note(fmt::format(
            "{}: the log has {} hosts, but {} ranks with {} ranks per node need {} nodes",
            run.location.file, run.hosts.size(), ranks, per_node, ranks / per_node));
      }
      nodes = ranks / per_node;
    } else if (run.hosts.empty()) {
      Report("nccl-tests.no-ranks", run.location, "the log does not specify the number of nodes",
             "add --ranks-per-node N");
      return std::nullopt;
    } else if (ranks % nodes != 0) {
      Report("nccl-tests.bad-group", run.location,
             fmt::format("the number of ranks, {}, is not divisible by the number of hosts, {}",
                         ranks, nodes),
             "add --ranks-per-node N");
      return std::nullopt;
    }
    return Shape{*collective, ranks, nodes};
  }

  void Add(const NcclTestsRun& run) {
    const std::optional<Shape> shape = ShapeOf(run);
    if (!shape) return;
    std::map<Bytes, Point>& points = tables_[*shape];
    locations_.try_emplace(*shape, run.location);
    std::size_t added = 0;
    std::size_t empty = 0;
    for (const NcclTestsRow& row : run.rows) {
      const std::optional<Time>& time = options_.in_place ? row.in_place : row.out_of_place;
      if (row.size == Bytes()) {
        ++empty;
        continue;
      }
      if (!time) continue;
      Point& point = points[row.size];
      if (point.rows++ == 0) point.location = row.location;
      point.picoseconds += time->picoseconds();
      ++added;
    }
    if (run.cut) {
      Note(fmt::format(
          "{}: the last row of the table at line {} was ignored, because it is incomplete",
          run.location.file, run.location.line));
    }
    if (!run.concluded) {
      Note(fmt::format(
          "{}: the table at line {} ends without the summary of nccl-tests, so rows may be missing",
          run.location.file, run.location.line));
    }
    if (empty > 0) {
      Note(
          fmt::format("{}: {} rows of size 0 were ignored, because they have less than one element "
                      "for each rank",
                      run.location.file, empty));
    }
    if (added > 0) return;
    Report("nccl-tests.no-times", run.location,
           fmt::format("no row has both {} times and a size larger than zero",
                       options_.in_place ? "in-place" : "out-of-place"),
           options_.in_place ? "omit --in-place" : "add --in-place");
  }

  void MakeTables() {
    for (const auto& [shape, points] : tables_) {
      calibration::CollectiveTable table;
      table.collective = std::get<0>(shape);
      table.ranks = std::get<1>(shape);
      table.nodes = std::get<2>(shape);
      table.location = locations_.at(shape);
      for (const auto& [size, point] : points) {
        // Rounded to the nearest picosecond.
        const std::int64_t mean = (point.picoseconds + point.rows / 2) / point.rows;
        table.points.emplace_back(size, Picoseconds(std::max<std::int64_t>(mean, 1)));
      }
      if (options_.keep_noise) {
        const std::size_t moved = Pool(table.points);
        if (moved > 0) {
          Note(
              fmt::format("{} over {} ranks: {} of {} times were longer than times of larger "
                          "sizes, and were averaged with these times",
                          Name(table.collective), table.ranks, moved, table.points.size()));
        }
      }
      result_.profile.collectives.push_back(std::move(table));
    }
  }

  // Replaces times that fall with size by means of neighbors: the least-squares fit of times that
  // do not fall (pool adjacent violators; Barlow et al. 1972, Statistical Inference under Order
  // Restrictions). Returns the number of changed times.
  static std::size_t Pool(std::vector<std::pair<Bytes, Time>>& points) {
    struct Block {
      double sum = 0;
      std::size_t count = 0;
      double mean() const { return sum / static_cast<double>(count); }
    };
    std::vector<Block> blocks;
    for (const auto& [size, time] : points) {
      blocks.push_back({static_cast<double>(time.picoseconds()), 1});
      while (blocks.size() > 1 && blocks[blocks.size() - 2].mean() > blocks.back().mean()) {
        const Block last = blocks.back();
        blocks.pop_back();
        blocks.back().sum += last.sum;
        blocks.back().count += last.count;
      }
    }
    std::size_t at = 0;
    std::size_t moved = 0;
    for (const Block& block : blocks) {
      for (std::size_t i = 0; i < block.count; ++i, ++at) {
        if (block.count == 1) continue;
        points[at].second = Picoseconds(std::llround(block.mean()));
        ++moved;
      }
    }
    return moved;
  }

  // Whether --keep-noise would make the tables usable.
  bool NoiseAlone() const {
    calibration::Calibration pooled = result_.profile;
    for (calibration::CollectiveTable& table : pooled.collectives) Pool(table.points);
    return calibration::Check(pooled).empty();
  }

  static std::string Joined(const std::set<std::string>& texts) {
    std::string joined;
    for (const std::string& text : texts) {
      if (!text.empty()) joined += (joined.empty() ? "" : ", ") + text;
    }
    return joined;
  }

  void MakeProvenance(const std::vector<NcclTestsRun>& runs) {
    std::set<std::string> gpus;
    std::set<std::string> nccl;
    std::set<std::string> tests;
    std::set<std::string> started;
    std::set<std::string> files;
    for (const NcclTestsRun& run : runs) {
      gpus.insert(run.gpu);
      nccl.insert(run.nccl_version);
      tests.insert(run.tests_version);
      started.insert(run.started);
      files.insert(run.location.file.substr(run.location.file.rfind('/') + 1));
    }
    const auto add = [&](const char* key, std::string text) {
      result_.profile.provenance.emplace_back(key, std::move(text));
    };
    result_.profile.name = options_.name;
    if (!options_.gpu.empty()) {
      result_.profile.gpus = {options_.gpu};
    } else if (gpus.size() == 1) {
      const GpuModel* model = FindGpuModelOfCuda(*gpus.begin());
      if (model != nullptr) result_.profile.gpus = {std::string(model->name)};
    }
    if (const std::string text = Joined(gpus); !text.empty()) add("machine", text);
    if (const std::string text = Joined(nccl); !text.empty()) add("software", "NCCL " + text);
    if (const std::string text = Joined(started); !text.empty()) add("when", text);
    const std::string version = Joined(tests);
    add("how", fmt::format("nccl-tests{}{}, {} times{}", version.empty() ? "" : " ", version,
                           options_.in_place ? "in-place" : "out-of-place",
                           runs.size() > 1 ? ", mean over runs" : ""));
    add("logs", Joined(files));
  }

  // Maps "collectives[2].points[3]" to the row of the log.
  void CheckTables() {
    const bool noise_alone = NoiseAlone();
    for (const calibration::Fault& fault : calibration::Check(result_.profile)) {
      Location location;
      const auto index = [&](std::string_view name) -> std::size_t {
        const std::size_t at = fault.field.find(fmt::format("{}[", name));
        std::size_t number = 0;
        if (at == std::string::npos) return 0;
        const char* begin = fault.field.data() + at + name.size() + 1;
        std::from_chars(begin, fault.field.data() + fault.field.size(), number);
        return number;
      };
      const std::size_t table = index("collectives");
      if (table < result_.profile.collectives.size()) {
        const calibration::CollectiveTable& found = result_.profile.collectives[table];
        location = found.location;
        const std::size_t point = index("points");
        if (point < found.points.size()) {
          location = tables_.at({found.collective, found.ranks, found.nodes})
                         .at(found.points[point].first)
                         .location;
        }
      }
      Report(
          "calibration.implausible", location, fault.message,
          noise_alone ? fault.hint + "; to average the two times, add --keep-noise" : fault.hint);
    }
  }

  const NcclTestsOptions& options_;
  std::map<Shape, std::map<Bytes, Point>> tables_;
  std::map<Shape, Location> locations_;
  NcclTestsProfile result_;
  Diagnostics mistakes_;
};

}  // namespace

Result<NcclTestsProfile> ProfileOf(const std::vector<NcclTestsRun>& runs,
                                   const NcclTestsOptions& options) {
  return Merger(options).Run(runs);
}

}  // namespace stepcast::formats
