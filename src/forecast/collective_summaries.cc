#include "src/forecast/collective_summaries.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace stepcast::forecast {
namespace {

using program::Index;

// Calls of one collective on one communicator.
struct Sum {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Index communicator = 0;
  CollectiveSummary summary;
  std::vector<std::string_view> algorithms, protocols;
};

void Note(std::string_view name, std::vector<std::string_view>& names) {
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return;
  names.push_back(name);
}

std::string Joined(std::vector<std::string_view>& names) {
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string_view name : names) {
    if (!text.empty()) text += '+';
    text += name;
  }
  return text;
}

}  // namespace

std::vector<CollectiveSummary> SummariseCollectives(const program::Program& program,
                                                    const cost::Prices& prices,
                                                    const StepCounts& counts,
                                                    const program::Timeline& timeline,
                                                    std::uint32_t step) {
  std::vector<Sum> sums;
  std::vector<std::uint32_t> sum_of(counts.collectives.size());  // by operand
  for (std::size_t operand = 0; operand < counts.collectives.size(); ++operand) {
    const std::int64_t calls = counts.collectives[operand];
    if (calls == 0) continue;
    const program::Collective& collective = program.collectives[operand];
    const cost::CollectivePrice& price = prices.collectives[operand];
    auto sum = std::find_if(sums.begin(), sums.end(), [&](const Sum& known) {
      return known.kind == collective.kind && known.communicator == collective.communicator;
    });
    if (sum == sums.end()) {
      sums.push_back({.kind = collective.kind,
                      .communicator = collective.communicator,
                      .summary = {},
                      .algorithms = {},
                      .protocols = {}});
      sum = sums.end() - 1;
      sum->summary.provenance = price.demand.provenance;
    }
    sum_of[operand] = static_cast<std::uint32_t>(sum - sums.begin());
    CollectiveSummary& summary = sum->summary;
    summary.calls += calls;
    summary.wire_bytes_per_rank += static_cast<double>(calls) * price.wire_bytes_per_rank;
    summary.provenance = std::max(summary.provenance, price.demand.provenance);
    summary.channels = std::max(summary.channels, price.channels);
    Note(price.algorithm, sum->algorithms);
    Note(price.protocol, sum->protocols);
  }
  for (const program::OperationRecord& record : timeline.operations) {
    if (record.step != step) continue;
    const program::Instruction& instruction = program.step[record.instruction];
    if (instruction.opcode != program::Opcode::kCollective) continue;
    sums[sum_of[instruction.operand]].summary.total += record.end - record.start;
  }
  for (Sum& sum : sums) {
    sum.summary.collective = sum.kind;
    sum.summary.group = program.groups[program.communicators[sum.communicator].group].name;
    sum.summary.algorithm = Joined(sum.algorithms);
    sum.summary.protocol = Joined(sum.protocols);
  }
  std::sort(sums.begin(), sums.end(), [](const Sum& a, const Sum& b) {
    return std::tie(a.kind, a.summary.group, a.communicator) <
           std::tie(b.kind, b.summary.group, b.communicator);
  });
  std::vector<CollectiveSummary> summaries;
  summaries.reserve(sums.size());
  for (Sum& sum : sums) summaries.push_back(std::move(sum.summary));
  return summaries;
}

}  // namespace stepcast::forecast
