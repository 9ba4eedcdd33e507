#include "src/program/matching.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "fmt/format.h"
#include "src/program/description.h"

namespace stepcast::program {
namespace {

constexpr int kPasses = 3;  // the prologue, a step, and another one that may wait for the first

class Together {
 public:
  explicit Together(std::span<const RankProgram> ranks) : given_(ranks) {
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      index_of_[ranks[r].rank] = r;
      const Program& program = *ranks[r].program;
      Rank& rank = ranks_.emplace_back();
      rank.streams.resize(program.streams.size());
      rank.recorded.assign(program.events.size(), -1);
      rank.issued.assign(program.communicators.size(), 0);
      rank.finished = rank.issued;
    }
  }

  std::vector<Violation> Run() {
    CompareMessages();
    if (!violations_.empty()) return std::move(violations_);
    while (Advance()) {
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) Explain(r);
    return std::move(violations_);
  }

 private:
  struct Place {
    int pass = 0;
    Index instruction = 0;
  };
  // The ranks that share a communicator, and its name.
  using CommunicatorKey = std::pair<std::string, std::vector<int>>;

  const ProcessGroup& GroupOf(std::size_t r, Index communicator) const {
    const Program& program = *given_[r].program;
    const auto& groups = given_[r].groups != nullptr ? *given_[r].groups : program.groups;
    return groups[program.communicators[communicator].group];
  }
  CommunicatorKey KeyOf(std::size_t r, Index communicator) const {
    return {given_[r].program->communicators[communicator].name, GroupOf(r, communicator).ranks};
  }
  // The global rank of an exchange's peer.
  int PeerOf(std::size_t r, const Exchange& exchange, const Message& message) const {
    const ProcessGroup& group = GroupOf(r, exchange.communicator);
    const int position = exchange.PeerPosition(message, group.PositionOf(given_[r].rank),
                                               static_cast<int>(group.ranks.size()));
    return group.ranks[static_cast<std::size_t>(position)];
  }
  const std::vector<Instruction>& Pass(std::size_t r, int pass) const {
    return pass == 0 ? given_[r].program->prologue : given_[r].program->step;
  }
  std::string Who(std::size_t r, Place place) const {
    return fmt::format("rank {}, {}[{}] {}", given_[r].rank, place.pass == 0 ? "prologue" : "step",
                       place.instruction,
                       Describe(*given_[r].program, Pass(r, place.pass)[place.instruction]));
  }
  void Report(ViolationKind kind, Place place, std::string message) {
    violations_.push_back({kind, place.pass == 0, place.instruction, std::move(message)});
  }

  // Messages, pair by pair.

  struct MessageEnd {
    std::size_t rank = 0;
    Place place;
    Bytes bytes;
    DataType type = DataType::kBf16;
  };
  struct Lane {
    std::vector<MessageEnd> sent, received;
  };

  void CompareMessages() {
    for (const int pass : {0, 1}) {
      std::map<std::tuple<CommunicatorKey, int, int>, Lane> lanes;  // from, to
      for (std::size_t r = 0; r < given_.size(); ++r) {
        const std::vector<Instruction>& instructions = Pass(r, pass);
        for (Index i = 0; i < instructions.size(); ++i) {
          if (instructions[i].opcode != Opcode::kExchange) continue;
          const Exchange& exchange = given_[r].program->exchanges[instructions[i].operand];
          for (const Message& message : exchange.messages) {
            const int peer = PeerOf(r, exchange, message);
            const bool sends = message.direction == MessageDirection::kSend;
            Lane& lane = lanes[{KeyOf(r, exchange.communicator), sends ? given_[r].rank : peer,
                                sends ? peer : given_[r].rank}];
            (sends ? lane.sent : lane.received)
                .push_back({r, {pass, i}, message.bytes, exchange.data_type});
          }
        }
      }
      for (const auto& [key, lane] : lanes) Compare(std::get<1>(key), std::get<2>(key), lane);
    }
  }

  void Compare(int from, int to, const Lane& lane) {
    const std::size_t common = std::min(lane.sent.size(), lane.received.size());
    for (std::size_t k = 0; k < common; ++k) {
      const MessageEnd& sent = lane.sent[k];
      const MessageEnd& received = lane.received[k];
      if (sent.bytes == received.bytes && sent.type == received.type) continue;
      Report(ViolationKind::kMismatch, sent.place,
             fmt::format("{}: message {} to rank {} has {} B {}, but {} receives {} B {} from "
                         "this rank",
                         Who(sent.rank, sent.place), k, to, sent.bytes.count(), Name(sent.type),
                         Who(received.rank, received.place), received.bytes.count(),
                         Name(received.type)));
    }
    for (std::size_t k = common; k < lane.sent.size(); ++k) {
      Report(ViolationKind::kMismatch, lane.sent[k].place,
             fmt::format("{}: rank {} does not receive message {}, which has {} B",
                         Who(lane.sent[k].rank, lane.sent[k].place), to, k,
                         lane.sent[k].bytes.count()));
    }
    for (std::size_t k = common; k < lane.received.size(); ++k) {
      Report(ViolationKind::kMismatch, lane.received[k].place,
             fmt::format("{}: rank {} does not send message {}, which has {} B",
                         Who(lane.received[k].rank, lane.received[k].place), from, k,
                         lane.received[k].bytes.count()));
    }
  }

  // The run without times.

  struct Queued {
    Place place;
    int record = -1;  // recorded here, or waited for; -1: satisfied at once
    int number = 0;   // of its communicator's collectives and exchanges
    int round = 0;    // of its collectives
    bool begun = false;
  };
  struct Rank {
    Place host;
    int awaited = -1;  // the record that the host stands at
    std::vector<std::deque<Queued>> streams;
    std::vector<int> recorded;          // by event: the latest record
    std::vector<bool> reached;          // by record
    std::vector<Place> records;         // likewise
    std::vector<int> issued, finished;  // by communicator
    std::map<Index, int> rounds;        // by communicator: collectives issued
    std::map<std::size_t, int> open;    // by stream: messages of its exchange
  };
  struct Waiting {
    std::size_t rank = 0, stream = 0;
  };
  struct Meeting {
    std::deque<Waiting> sent, received;
  };

  bool Advance() {
    bool any = false;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      while (Issue(r)) any = true;
      for (std::size_t s = 0; s < ranks_[r].streams.size(); ++s) {
        while (AdvanceStream(r, s)) any = true;
      }
    }
    return any;
  }

  bool Issue(std::size_t r) {
    Rank& rank = ranks_[r];
    if (rank.host.pass == kPasses) return false;
    if (rank.awaited >= 0 && !rank.reached[static_cast<std::size_t>(rank.awaited)]) return false;
    rank.awaited = -1;
    const std::vector<Instruction>& instructions = Pass(r, rank.host.pass);
    if (rank.host.instruction == instructions.size()) {
      rank.host = {rank.host.pass + 1, 0};
      return true;
    }
    const Instruction& instruction = instructions[rank.host.instruction];
    Queued queued{.place = rank.host};
    ++rank.host.instruction;
    if (instruction.opcode == Opcode::kHostWaitEvent) {
      rank.awaited = rank.recorded[instruction.operand];
      return true;
    }
    if (!RunsOnStream(instruction.opcode)) return true;
    if (instruction.opcode == Opcode::kRecordEvent) {
      queued.record = static_cast<int>(rank.reached.size());
      rank.recorded[instruction.operand] = queued.record;
      rank.reached.push_back(false);
      rank.records.push_back(queued.place);
    } else if (instruction.opcode == Opcode::kWaitEvent) {
      queued.record = rank.recorded[instruction.operand];
    } else if (const Index c = CommunicatorOf(*given_[r].program, instruction); c != kNone) {
      queued.number = rank.issued[c]++;
      if (instruction.opcode == Opcode::kCollective) queued.round = rank.rounds[c]++;
    }
    rank.streams[instruction.stream].push_back(queued);
    return true;
  }

  bool AdvanceStream(std::size_t r, std::size_t s) {
    Rank& rank = ranks_[r];
    if (rank.streams[s].empty()) return false;
    Queued& front = rank.streams[s].front();
    const Instruction& instruction = Pass(r, front.place.pass)[front.place.instruction];
    switch (instruction.opcode) {
      case Opcode::kRecordEvent:
        rank.reached[static_cast<std::size_t>(front.record)] = true;
        break;
      case Opcode::kWaitEvent:
        if (front.record >= 0 && !rank.reached[static_cast<std::size_t>(front.record)]) {
          return false;
        }
        break;
      case Opcode::kCollective:
      case Opcode::kExchange: {
        const Index c = CommunicatorOf(*given_[r].program, instruction);
        if (front.begun || front.number != rank.finished[c]) return false;
        front.begun = true;
        if (instruction.opcode == Opcode::kCollective) {
          Meet(r, s, c);
        } else {
          Exchanges(r, s, given_[r].program->exchanges[instruction.operand]);
        }
        return true;
      }
      default:
        break;
    }
    rank.streams[s].pop_front();
    return true;
  }

  void End(Waiting at) {
    Rank& rank = ranks_[at.rank];
    const Queued& front = rank.streams[at.stream].front();
    const Instruction& instruction = Pass(at.rank, front.place.pass)[front.place.instruction];
    ++rank.finished[CommunicatorOf(*given_[at.rank].program, instruction)];
    rank.streams[at.stream].pop_front();
  }

  void Meet(std::size_t r, std::size_t s, Index communicator) {
    const int round = ranks_[r].streams[s].front().round;
    std::vector<Waiting>& members = collectives_[{KeyOf(r, communicator), round}];
    members.push_back({r, s});
    for (const int rank : GroupOf(r, communicator).ranks) {
      const auto found = index_of_.find(rank);
      const auto came = [&](const Waiting& member) { return member.rank == found->second; };
      if (found != index_of_.end() && std::none_of(members.begin(), members.end(), came)) return;
    }
    for (const Waiting& member : std::exchange(members, {})) End(member);
  }

  void Exchanges(std::size_t r, std::size_t s, const Exchange& exchange) {
    ranks_[r].open[s] = static_cast<int>(exchange.messages.size());
    for (const Message& message : exchange.messages) {
      const int peer = PeerOf(r, exchange, message);
      const bool sends = message.direction == MessageDirection::kSend;
      const int own = given_[r].rank;
      Meeting& meeting =
          meetings_[{KeyOf(r, exchange.communicator), sends ? own : peer, sends ? peer : own}];
      std::deque<Waiting>& others = sends ? meeting.received : meeting.sent;
      if (others.empty()) {
        (sends ? meeting.sent : meeting.received).push_back({r, s});
        continue;
      }
      const Waiting other = others.front();
      others.pop_front();
      if (--ranks_[other.rank].open[other.stream] == 0) End(other);
      if (--ranks_[r].open[s] == 0) End({r, s});
    }
  }

  // Reports of streams and hosts that wait forever.

  void Explain(std::size_t r) {
    const Rank& rank = ranks_[r];
    if (rank.awaited >= 0 && !rank.reached[static_cast<std::size_t>(rank.awaited)]) {
      const Place place = {rank.host.pass, rank.host.instruction - 1};
      Report(ViolationKind::kDeadlock, place,
             fmt::format("{} waits forever, because {} is not reached", Who(r, place),
                         Who(r, rank.records[static_cast<std::size_t>(rank.awaited)])));
    }
    for (const std::deque<Queued>& stream : rank.streams) {
      if (stream.empty()) continue;
      const Queued& front = stream.front();
      Report(ViolationKind::kDeadlock, front.place,
             fmt::format("{} waits forever{}", Who(r, front.place), Reason(r, front)));
    }
  }

  std::string Reason(std::size_t r, const Queued& front) const {
    const Instruction& instruction = Pass(r, front.place.pass)[front.place.instruction];
    if (instruction.opcode == Opcode::kWaitEvent) {
      return fmt::format(": {} is not reached",
                         Who(r, ranks_[r].records[static_cast<std::size_t>(front.record)]));
    }
    const Index c = CommunicatorOf(*given_[r].program, instruction);
    if (front.number != ranks_[r].finished[c]) return " for its turn on the communicator";
    std::string reason;
    const auto add = [&](int rank) {
      const auto found = index_of_.find(rank);
      if (found == index_of_.end() || found->second == r) return;
      reason += fmt::format("{} rank {}, {}", reason.empty() ? " for" : ";", rank,
                            Standing(found->second));
    };
    if (instruction.opcode == Opcode::kExchange) {
      const Exchange& exchange = given_[r].program->exchanges[instruction.operand];
      std::vector<int> peers;
      for (const Message& message : exchange.messages) {
        const int peer = PeerOf(r, exchange, message);
        const bool sends = message.direction == MessageDirection::kSend;
        const int own = given_[r].rank;
        const auto found = meetings_.find(
            {KeyOf(r, exchange.communicator), sends ? own : peer, sends ? peer : own});
        if (found == meetings_.end()) continue;
        const std::deque<Waiting>& waiting = sends ? found->second.sent : found->second.received;
        if (waiting.empty() || std::find(peers.begin(), peers.end(), peer) != peers.end()) continue;
        peers.push_back(peer);
        add(peer);
      }
    } else {
      const auto found = collectives_.find({KeyOf(r, c), front.round});
      for (const int rank : GroupOf(r, c).ranks) {
        const auto index = index_of_.find(rank);
        if (index == index_of_.end()) continue;
        const auto came = [&](const Waiting& member) { return member.rank == index->second; };
        if (std::none_of(found->second.begin(), found->second.end(), came)) add(rank);
      }
    }
    return reason;
  }

  // The position of the first stream of a rank that cannot continue.
  std::string Standing(std::size_t r) const {
    for (const std::deque<Queued>& stream : ranks_[r].streams) {
      if (stream.empty()) continue;
      const Place place = stream.front().place;
      return fmt::format("which waits at {}[{}] {}", place.pass == 0 ? "prologue" : "step",
                         place.instruction,
                         Describe(*given_[r].program, Pass(r, place.pass)[place.instruction]));
    }
    return "which has reached its end";
  }

  std::span<const RankProgram> given_;
  std::map<int, std::size_t> index_of_;
  std::vector<Rank> ranks_;
  std::map<std::pair<CommunicatorKey, int>, std::vector<Waiting>> collectives_;  // by round
  std::map<std::tuple<CommunicatorKey, int, int>, Meeting> meetings_;            // from, to
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> ValidateTogether(std::span<const RankProgram> ranks) {
  return Together(ranks).Run();
}

}  // namespace stepcast::program
