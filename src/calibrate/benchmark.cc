#include "src/calibrate/benchmark.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <unordered_map>
#include <utility>

#include "src/calibrate/statistics.h"
#include "src/runtime/executor.h"

namespace stepcast::calibrate {
namespace {

// The packed form of a record: times in picoseconds.
struct Packed {
  std::int64_t issued = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;
};

constexpr double kPicosecond = 1e-12;
double SecondsOf(std::int64_t picoseconds) {
  return static_cast<double>(picoseconds) * kPicosecond;
}

// The distinct operations of all probes, ascending.
std::vector<program::Index> OperationsOf(const Benchmark& benchmark) {
  std::vector<program::Index> operations;
  for (const Probe& probe : benchmark.probes) {
    operations.insert(operations.end(), probe.operations.begin(), probe.operations.end());
  }
  std::sort(operations.begin(), operations.end());
  operations.erase(std::unique(operations.begin(), operations.end()), operations.end());
  return operations;
}

// One rank's records by step and operation.
class RankRecords {
 public:
  RankRecords(const std::string& packed, std::size_t operations)
      : operations_(operations), records_(packed.size() / sizeof(Packed)) {
    if (!records_.empty()) {
      std::memcpy(records_.data(), packed.data(), records_.size() * sizeof(Packed));
    }
  }
  bool complete(int steps) const {
    return records_.size() == operations_ * static_cast<std::size_t>(steps) &&
           std::all_of(records_.begin(), records_.end(),
                       [](const Packed& record) { return record.end >= record.start; });
  }
  const Packed& at(int step, std::size_t operation) const {
    return records_[static_cast<std::size_t>(step) * operations_ + operation];
  }

 private:
  std::size_t operations_;
  std::vector<Packed> records_;
};

// Samples of a probe whose rule uses a single rank.
std::vector<double> OwnSamples(const RankRecords& records, Rule rule, int steps,
                               const std::vector<std::size_t>& operations) {
  std::vector<double> samples;
  std::vector<double> late;
  for (int step = 0; step < steps; ++step) {
    if (rule == Rule::kIssue) {
      std::vector<std::pair<double, double>> points;
      for (std::size_t i = 0; i < operations.size(); ++i) {
        points.emplace_back(static_cast<double>(i),
                            SecondsOf(records.at(step, operations[i]).issued));
      }
      samples.push_back(std::max(FitLine(points).slope, kPicosecond));
      continue;
    }
    for (std::size_t i = 1; i < operations.size(); ++i) {
      const std::int64_t before = records.at(step, operations[i - 1]).end;
      const std::int64_t period = records.at(step, operations[i]).end - before;
      const bool in_time = records.at(step, operations[i]).issued <= before;
      (in_time ? samples : late).push_back(SecondsOf(std::max<std::int64_t>(period, 1)));
    }
  }
  return samples.empty() ? late : samples;
}

double CollectiveSample(const std::vector<RankRecords>& ranks, const std::vector<int>& group,
                        int step, std::size_t operation) {
  std::int64_t last_start = std::numeric_limits<std::int64_t>::min();
  std::int64_t last_end = last_start;
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  std::int64_t longest = 0;
  for (const int rank : group) {
    const Packed& record = ranks[static_cast<std::size_t>(rank)].at(step, operation);
    last_start = std::max(last_start, record.start);
    last_end = std::max(last_end, record.end);
    shortest = std::min(shortest, record.end - record.start);
    longest = std::max(longest, record.end - record.start);
  }
  const std::int64_t seen = std::clamp(last_end - last_start, shortest, longest);
  return SecondsOf(std::max<std::int64_t>(seen, 1));
}

}  // namespace

std::string PackRecords(const Benchmark& benchmark, const program::Timeline& timeline) {
  const std::vector<program::Index> operations = OperationsOf(benchmark);
  std::unordered_map<program::Index, std::size_t> position;
  for (std::size_t i = 0; i < operations.size(); ++i) position[operations[i]] = i;
  std::vector<Packed> records(operations.size() * timeline.step_ends.size(), Packed{0, 1, 0});
  for (const program::OperationRecord& record : timeline.operations) {
    const auto found = position.find(record.instruction);
    if (found == position.end() || record.step >= timeline.step_ends.size()) continue;
    records[record.step * operations.size() + found->second] = {
        record.issued.picoseconds(), record.start.picoseconds(), record.end.picoseconds()};
  }
  std::string packed(records.size() * sizeof(Packed), '\0');
  if (!records.empty()) std::memcpy(packed.data(), records.data(), packed.size());
  return packed;
}

runtime::Attempt<std::vector<std::vector<double>>> SamplesOf(
    const Benchmark& benchmark, int steps, const std::vector<std::string>& packed) {
  const std::vector<program::Index> operations = OperationsOf(benchmark);
  std::vector<RankRecords> ranks;
  for (std::size_t rank = 0; rank < packed.size(); ++rank) {
    ranks.emplace_back(packed[rank], operations.size());
    if (!ranks.back().complete(steps)) {
      return tl::unexpected(runtime::Failure{
          "the times of rank " + std::to_string(rank) + " are not complete", false});
    }
  }
  std::vector<std::vector<double>> samples;
  for (const Probe& probe : benchmark.probes) {
    std::vector<std::size_t> at;
    for (const program::Index operation : probe.operations) {
      at.push_back(static_cast<std::size_t>(
          std::lower_bound(operations.begin(), operations.end(), operation) - operations.begin()));
    }
    std::vector<double> of_probe;
    if (probe.rule == Rule::kCollective) {
      for (int step = 0; step < steps; ++step) {
        for (const std::size_t operation : at) {
          for (const std::vector<int>& group : benchmark.groups) {
            of_probe.push_back(CollectiveSample(ranks, group, step, operation));
          }
        }
      }
    } else {
      double longest = -1;
      for (const RankRecords& records : ranks) {
        std::vector<double> own = OwnSamples(records, probe.rule, steps, at);
        const double median = own.empty() ? 0 : Median(own);
        if (median <= longest) continue;
        longest = median;
        of_probe = std::move(own);
      }
    }
    samples.push_back(std::move(of_probe));
  }
  return samples;
}

Runner RunOn(runtime::Backend& backend, runtime::Job& job, runtime::Watch& watch) {
  return [&backend, &job, &watch, rank = job.place().rank](
             const program::Program& program, int warmup_steps,
             int measured_steps) -> runtime::Attempt<program::Timeline> {
    auto device = backend.MakeDevice(program, job, runtime::DeviceOptions());
    if (!device) return tl::unexpected(device.error());
    runtime::ExecuteOptions options;
    options.warmup_steps = warmup_steps;
    options.measured_steps = measured_steps;
    auto measurement = runtime::Execute(program, **device, job, options, watch.progress(rank));
    // Reports the failure before the device is destroyed, since its destructor waits for running
    // work, which may wait for partners.
    if (!measurement) watch.Fail(rank, measurement.error());
    return std::move(measurement->timeline);
  };
}

}  // namespace stepcast::calibrate
