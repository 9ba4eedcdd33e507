#include "src/report/message_arrows.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

namespace stepcast::report {
namespace {

using program::Index;

// The messages of one step from one rank to another over a group of this size, in order.
struct Channel {
  std::uint32_t step = 0;
  std::string group;
  int members = 0, from = 0, to = 0;
  friend auto operator<=>(const Channel&, const Channel&) = default;
};

struct End {
  std::size_t rank = 0;
  Index record = program::kNone;
};

template <typename Visit>
void VisitMessages(const RankTimeline& rank, const Visit& visit) {
  const program::Program& program = *rank.program;
  const std::vector<program::OperationRecord>& records = rank.timeline->operations;
  std::vector<Index> exchanges;  // records
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (program.step[records[i].instruction].opcode == program::Opcode::kExchange) {
      exchanges.push_back(static_cast<Index>(i));
    }
  }
  // Records are ordered by time, which differs from host order if there are several streams.
  std::sort(exchanges.begin(), exchanges.end(), [&](Index a, Index b) {
    return std::tie(records[a].step, records[a].instruction) <
           std::tie(records[b].step, records[b].instruction);
  });
  for (const Index record : exchanges) {
    const program::Instruction& instruction = program.step[records[record].instruction];
    const program::Exchange& exchange = program.exchanges[instruction.operand];
    const program::ProcessGroup& group =
        program.groups[program.communicators[exchange.communicator].group];
    const int members = static_cast<int>(group.ranks.size());
    const int own = group.PositionOf(program.rank);
    for (const program::Message& message : exchange.messages) {
      const int peer =
          group.ranks[static_cast<std::size_t>(exchange.PeerPosition(message, own, members))];
      const bool sends = message.direction == program::MessageDirection::kSend;
      visit(Channel{.step = records[record].step,
                    .group = group.name,
                    .members = members,
                    .from = sends ? program.rank : peer,
                    .to = sends ? peer : program.rank},
            sends, record);
    }
  }
}

}  // namespace

std::vector<MessageArrow> MessageArrows(std::span<const RankTimeline> ranks) {
  std::map<Channel, std::vector<End>> sends;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    VisitMessages(ranks[rank], [&](const Channel& channel, bool is_send, Index record) {
      if (is_send) sends[channel].push_back({rank, record});
    });
  }
  std::vector<MessageArrow> arrows;
  std::map<Channel, std::size_t> received;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    VisitMessages(ranks[rank], [&](const Channel& channel, bool is_send, Index record) {
      if (is_send) return;
      const auto sent = sends.find(channel);
      const std::size_t k = received[channel]++;
      if (sent == sends.end() || k >= sent->second.size()) return;
      const End& from = sent->second[k];
      arrows.push_back(
          {.from_rank = from.rank, .to_rank = rank, .send = from.record, .receive = record});
    });
  }
  return arrows;
}

}  // namespace stepcast::report
