#include "src/forecast/collective_summaries.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

namespace stepcast::forecast {
namespace {

using program::Index;

// Calls of one collective on one communicator.
struct Sum {
  std::optional<CollectiveKind> kind;  // none: exchanges
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
  const auto sum_with = [&](std::optional<CollectiveKind> kind, Index communicator,
                            std::uint32_t& index) -> Sum& {
    auto sum = std::find_if(sums.begin(), sums.end(), [&](const Sum& known) {
      return known.kind == kind && known.communicator == communicator;
    });
    if (sum == sums.end()) {
      sums.push_back({.kind = kind,
                      .communicator = communicator,
                      .summary = {},
                      .algorithms = {},
                      .protocols = {}});
      sum = sums.end() - 1;
      sum->summary.provenance = cost::Provenance::kGiven;
    }
    index = static_cast<std::uint32_t>(sum - sums.begin());
    return *sum;
  };
  std::vector<std::uint32_t> sum_of(counts.collectives.size());  // by operand
  for (std::size_t operand = 0; operand < counts.collectives.size(); ++operand) {
    const std::int64_t calls = counts.collectives[operand];
    if (calls == 0) continue;
    const program::Collective& collective = program.collectives[operand];
    const cost::CollectivePrice& price = prices.collectives[operand];
    Sum& sum = sum_with(collective.kind, collective.communicator, sum_of[operand]);
    CollectiveSummary& summary = sum.summary;
    summary.calls += calls;
    summary.wire_bytes_per_rank += static_cast<double>(calls) * price.wire_bytes_per_rank;
    summary.provenance = std::max(summary.provenance, price.demand.provenance);
    summary.channels = std::max(summary.channels, price.channels);
    Note(price.algorithm, sum.algorithms);
    Note(price.protocol, sum.protocols);
  }
  std::vector<std::uint32_t> sum_of_exchange(counts.exchanges.size());  // by operand
  for (std::size_t operand = 0; operand < counts.exchanges.size(); ++operand) {
    const std::int64_t calls = counts.exchanges[operand];
    if (calls == 0) continue;
    const program::Exchange& exchange = program.exchanges[operand];
    Sum& sum = sum_with({}, exchange.communicator, sum_of_exchange[operand]);
    sum.summary.calls += calls;
    for (std::size_t i = 0; i < exchange.messages.size(); ++i) {
      const cost::MessagePrice& price = prices.exchanges[operand][i];
      sum.summary.provenance = std::max(sum.summary.provenance, price.demand.provenance);
      sum.summary.channels = std::max(sum.summary.channels, price.channels);
      Note(price.protocol, sum.protocols);
      if (exchange.messages[i].direction != program::MessageDirection::kSend) continue;
      sum.summary.wire_bytes_per_rank +=
          static_cast<double>(calls) * static_cast<double>(exchange.messages[i].bytes.count());
    }
    Note("direct", sum.algorithms);
  }
  for (const program::OperationRecord& record : timeline.operations) {
    if (record.step != step) continue;
    const program::Instruction& instruction = program.step[record.instruction];
    if (!program::Communicates(instruction.opcode)) continue;
    const auto& of = instruction.opcode == program::Opcode::kExchange ? sum_of_exchange : sum_of;
    sums[of[instruction.operand]].summary.total += record.end - record.start;
  }
  for (Sum& sum : sums) {
    sum.summary.collective = sum.kind ? Name(*sum.kind) : kSendReceive;
    sum.summary.group = program.groups[program.communicators[sum.communicator].group].name;
    sum.summary.algorithm = Joined(sum.algorithms);
    sum.summary.protocol = Joined(sum.protocols);
  }
  std::sort(sums.begin(), sums.end(), [](const Sum& a, const Sum& b) {
    // Exchanges last.
    const auto key = [](const Sum& sum) {
      return std::tuple(!sum.kind, sum.kind, std::string_view(sum.summary.group), sum.communicator);
    };
    return key(a) < key(b);
  });
  std::vector<CollectiveSummary> summaries;
  summaries.reserve(sums.size());
  for (Sum& sum : sums) summaries.push_back(std::move(sum.summary));
  return summaries;
}

}  // namespace stepcast::forecast
