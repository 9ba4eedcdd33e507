#include "src/forecast/collective_summaries.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "src/program/description.h"

namespace stepcast::forecast {
namespace {

using program::Index;

// Calls of one collective among the ranks of one group, on any communicator of it. There may be
// several: layers that ranks divide have one, and what adds up gradients of parts of the tokens
// among the same ranks another (lowering/tied_gradients.h).
struct Sum {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  std::string_view group;
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

Sum& SumOf(CollectiveKind kind, std::string_view group, cost::Provenance provenance,
           std::vector<Sum>& sums) {
  for (Sum& known : sums) {
    if (known.kind == kind && known.group == group) return known;
  }
  Sum& sum = sums.emplace_back();
  sum.kind = kind;
  sum.group = group;
  sum.summary.provenance = provenance;
  return sum;
}

}  // namespace

std::vector<CollectiveSummary> SummariseCollectives(
    const program::Program& program, const cost::Prices& prices, const StepCounts& counts,
    const program::Timeline& timeline, std::uint32_t step, const program::LongerStep& longer) {
  std::vector<Sum> sums;
  const auto group_of = [&program](Index communicator) -> std::string_view {
    return program.groups[program.communicators[communicator].group].name;
  };
  std::vector<std::uint32_t> sum_of(counts.collectives.size());  // by operand
  for (std::size_t operand = 0; operand < counts.collectives.size(); ++operand) {
    const std::int64_t calls = counts.collectives[operand];
    if (calls == 0) continue;
    const program::Collective& collective = program.collectives[operand];
    const cost::CollectivePrice& price = prices.collectives[operand];
    Sum& sum =
        SumOf(collective.kind, group_of(collective.communicator), price.demand.provenance, sums);
    sum_of[operand] = static_cast<std::uint32_t>(&sum - sums.data());
    CollectiveSummary& summary = sum.summary;
    summary.calls += calls;
    summary.wire_bytes_per_rank += static_cast<double>(calls) * price.wire_bytes_per_rank;
    summary.provenance = std::max(summary.provenance, price.demand.provenance);
    summary.channels = std::max(summary.channels, price.channels);
    Note(price.algorithm, sum.algorithms);
    Note(price.protocol, sum.protocols);
  }
  // What exchanges send stands beside collectives.
  std::vector<std::uint32_t> sum_of_exchange(counts.exchanges.size());
  for (std::size_t operand = 0; operand < counts.exchanges.size(); ++operand) {
    const std::int64_t calls = counts.exchanges[operand];
    if (calls == 0) continue;
    Sum& sum = SumOf(CollectiveKind::kSendRecv, group_of(program.exchanges[operand].communicator),
                     prices.exchanges[operand].front().demand.provenance, sums);
    sum_of_exchange[operand] = static_cast<std::uint32_t>(&sum - sums.data());
    CollectiveSummary& summary = sum.summary;
    summary.calls += calls;
    for (std::size_t i = 0; i < prices.exchanges[operand].size(); ++i) {
      const program::Message& message = program.exchanges[operand].messages[i];
      const cost::MessagePrice& price = prices.exchanges[operand][i];
      if (message.direction == program::MessageDirection::kSend) {
        summary.wire_bytes_per_rank +=
            static_cast<double>(calls) * static_cast<double>(message.bytes.count());
      }
      summary.provenance = std::max(summary.provenance, price.demand.provenance);
      summary.channels = std::max(summary.channels, price.channels);
      Note("pairwise", sum.algorithms);
      Note(price.protocol, sum.protocols);
    }
  }
  for (const program::OperationRecord& record : timeline.operations) {
    if (record.step != step) continue;
    const program::Instruction& instruction = program.step[record.instruction];
    const Index communicator = program::CommunicatorOf(program, instruction);
    if (communicator == program::kNone) continue;
    const std::vector<std::uint32_t>& sum =
        instruction.opcode == program::Opcode::kExchange ? sum_of_exchange : sum_of;
    sums[sum[instruction.operand]].summary.total +=
        longer.Times(record.instruction) * (record.end - record.start);
  }
  for (Sum& sum : sums) {
    sum.summary.collective = sum.kind;
    sum.summary.group = sum.group;
    sum.summary.algorithm = Joined(sum.algorithms);
    sum.summary.protocol = Joined(sum.protocols);
  }
  std::sort(sums.begin(), sums.end(), [](const Sum& a, const Sum& b) {
    return std::tie(a.kind, a.group) < std::tie(b.kind, b.group);
  });
  std::vector<CollectiveSummary> summaries;
  summaries.reserve(sums.size());
  for (Sum& sum : sums) summaries.push_back(std::move(sum.summary));
  return summaries;
}

}  // namespace stepcast::forecast
