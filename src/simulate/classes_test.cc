// Random programs on several classes of ranks. They are compared with a second implementation of
// the same rules, event by event, and with themselves in equivalent configurations.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "rapidcheck/gtest.h"
#include "src/base/time.h"
#include "src/cost/demand.h"
#include "src/cost/prices.h"
#include "src/engine/shared_resources.h"
#include "src/program/description.h"
#include "src/program/program.h"
#include "src/program/test_program.h"
#include "src/program/timeline.h"
#include "src/simulate/simulate.h"

namespace stepcast::simulate {
namespace {

using engine::SharedResources;
using program::Index;
using program::Instruction;
using program::Opcode;
using program::Program;
using program::TestProgram;
using program::Timeline;

struct RankProgram {
  Program program;
  cost::Prices prices;
};
struct Case {
  std::deque<RankProgram> ranks;  // by class, which is one rank
  int steps = 1;

  std::vector<RankClass> Classes() const {
    std::vector<RankClass> classes;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      classes.push_back({.program = &ranks[r].program,
                         .prices = &ranks[r].prices,
                         .representative = static_cast<int>(r)});
    }
    return classes;
  }
};

cost::Demand AnyDemand() {
  cost::Demand demand;
  demand.latency = Picoseconds(*rc::gen::element(0, 0, 1, 700, 4000));
  demand.work = Picoseconds(*rc::gen::element(0, 1, 50, 999, 5000, 20001));
  for (double& share : demand.share) share = *rc::gen::element(0.0, 0.0, 0.1, 0.35, 0.5, 1.0);
  return demand;
}

// Collectives and exchanges have one order for all participants, so that none waits forever; each
// rank's other operations differ.
rc::Gen<Case> AnyCase() {
  return rc::gen::exec([] {
    constexpr int kStreams = 3;
    constexpr int kKernels = 3;
    constexpr int kEvents = 2;
    Case any;
    any.steps = *rc::gen::inRange(1, 5);
    const int ranks = *rc::gen::inRange(2, 5);
    struct Common {
      int communicator = 0;  // 0: all ranks; 1: ranks 0 and 1; 2: ranks 1 and the last
      int stream = 0;
      // For an exchange: (from, to), ranks of the communicator, which may be equal.
      std::vector<std::pair<int, int>> messages{};
    };
    std::vector<int> all;
    for (int r = 0; r < ranks; ++r) all.push_back(r);
    std::vector<std::vector<int>> groups = {all, {0, 1}, {1, ranks - 1}};
    if (ranks == 2) groups[2] = {1};
    const auto order = *rc::gen::container<std::vector<Common>>(rc::gen::exec([groups] {
      Common common{*rc::gen::inRange(0, 3), *rc::gen::inRange(0, 3)};
      if (*rc::gen::arbitrary<bool>()) return common;
      const std::vector<int>& group = groups[static_cast<std::size_t>(common.communicator)];
      const int messages = *rc::gen::inRange(1, 6);
      for (int i = 0; i < messages; ++i) {
        common.messages.emplace_back(*rc::gen::elementOf(group), *rc::gen::elementOf(group));
      }
      return common;
    }));
    for (int r = 0; r < ranks; ++r) {
      RankProgram& rank = any.ranks.emplace_back();
      TestProgram test(kStreams);
      for (int e = 0; e < kEvents; ++e) test.AddEvent("event");
      for (int k = 0; k < kKernels; ++k) {
        test.AddKernel("kernel");
        rank.prices.kernels.push_back(AnyDemand());
      }
      std::vector<std::optional<Index>> collective_of(3);
      const auto add_collective = [&](const std::string& name, const std::vector<int>& members,
                                      int bytes) {
        const Index communicator = test.AddCommunicator(name, members);
        const Index collective =
            test.AddCollective(CollectiveKind::kAllReduce, communicator, Bytes(bytes));
        rank.prices.collectives.emplace_back().demand = AnyDemand();
        return collective;
      };
      for (int g = 0; g < 3; ++g) {
        if (std::find(groups[g].begin(), groups[g].end(), r) == groups[g].end()) continue;
        collective_of[g] = add_collective("group " + std::to_string(g), groups[g], 64 + g);
      }
      const Index own = add_collective("own", {r}, 8);
      rank.prices.issue_kernel = Picoseconds(*rc::gen::element(0, 30, 3000));
      rank.prices.issue_collective = Picoseconds(*rc::gen::element(0, 10, 6000));
      const auto add_own = [&](int most) {
        const int count = *rc::gen::inRange(0, most);
        for (int i = 0; i < count; ++i) {
          const int stream = *rc::gen::inRange(0, kStreams);
          const auto event = static_cast<Index>(*rc::gen::inRange(0, kEvents));
          switch (*rc::gen::inRange(0, 10)) {
            case 0:
              test.Record(stream, event);
              break;
            case 1:
              test.Wait(stream, event);
              break;
            case 2:
              test.HostWait(event);
              break;
            case 3:
              test.HostTask("task", Picoseconds(*rc::gen::inRange(0, 5000)));
              break;
            case 4:
              test.Communicate(stream, own);
              break;
            default:
              test.Run(stream, static_cast<Index>(*rc::gen::inRange(0, kKernels)));
          }
        }
      };
      add_own(4);
      test.Step();
      add_own(4);
      const auto naming =
          *rc::gen::element(program::PeerNaming::kPosition, program::PeerNaming::kDistance);
      for (const Common& common : order) {
        if (common.messages.empty() && collective_of[common.communicator]) {
          test.Communicate(common.stream, *collective_of[common.communicator]);
        }
        std::vector<program::Message> messages;
        const std::vector<int>& group = groups[static_cast<std::size_t>(common.communicator)];
        const auto peer_of = [&](int rank) {
          const auto at = std::find(group.begin(), group.end(), rank) - group.begin();
          const auto own = std::find(group.begin(), group.end(), r) - group.begin();
          return static_cast<int>(naming == program::PeerNaming::kPosition ? at : at - own);
        };
        for (const auto& [from, to] : common.messages) {
          if (from == r) messages.push_back(TestProgram::Send(peer_of(to), Bytes(8)));
          if (to == r) messages.push_back(TestProgram::Receive(peer_of(from), Bytes(8)));
        }
        if (!messages.empty()) {
          for (cost::MessagePrice& price : rank.prices.exchanges.emplace_back(messages.size())) {
            price.demand = AnyDemand();
          }
          const Index communicator =
              test.program().collectives[*collective_of[common.communicator]].communicator;
          const int stream = *rc::gen::inRange(0, kStreams);
          test.Exchange(stream, test.AddExchange(communicator, std::move(messages), naming));
        }
        add_own(6);
      }
      rank.program = test.program();
    }
    return any;
  });
}

// A direct implementation of the rules of program.h and simulate.h. At each instant, everything
// that can happen is tried until nothing changes. Then all rates are solved again, and time
// advances to the next end, latency or issue. Waits refer to instances of records, as in CUDA.
class EventByEvent {
 public:
  explicit EventByEvent(const Case& any) : any_(any) {
    for (std::size_t c = 0; c < any.ranks.size(); ++c) {
      Rank rank;
      rank.streams.resize(any.ranks[c].program.streams.size());
      rank.latest.assign(any.ranks[c].program.events.size(), -1);
      rank.issued.assign(any.ranks[c].program.communicators.size(), 0);
      rank.rounds = rank.issued;
      rank.timeline.step_ends.assign(static_cast<std::size_t>(any.steps), Time());
      ranks_.push_back(std::move(rank));
    }
  }

  std::vector<Timeline> Run() {
    for (;;) {
      while (Finish() || Issue() || Start()) {
      }
      Solve();
      Time next = Time::Max();
      for (const Flight& flight : flights_) next = std::min(next, flight.next);
      for (const Rank& rank : ranks_) {
        for (const Stream& stream : rank.streams) {
          if (!stream.busy && !stream.queue.empty() && stream.queue.front().issued > now_) {
            next = std::min(next, stream.queue.front().issued);
          }
        }
      }
      if (next == Time::Max()) break;
      now_ = next;
    }
    std::vector<Timeline> timelines;
    for (Rank& rank : ranks_) {
      auto& ends = rank.timeline.step_ends;
      for (std::size_t s = 1; s < ends.size(); ++s) ends[s] = std::max(ends[s], ends[s - 1]);
      timelines.push_back(rank.timeline);
    }
    return timelines;
  }

 private:
  struct Queued {
    const Instruction* instruction = nullptr;
    Index index = 0;
    int pass = 0;
    Time issued;
    int record = -1;  // instance that is recorded or waited for
    int number = 0;   // among its communicator's collectives and exchanges
    int round = 0;    // the same without exchanges
  };
  struct Stream {
    std::deque<Queued> queue;
    bool busy = false;  // with the front of the queue
    Time free;          // since when the front item is at the front
    Time ready, start;
    std::size_t waiting = 0, open = 0;  // messages not started; messages not ended
    std::uint32_t held = 0;             // by those that have not started
  };
  struct Rank {
    std::vector<Stream> streams;
    int pass = 0;
    Index next = 0;
    Time clock;
    std::vector<int> latest;              // by event: last recorded instance; -1: none
    std::vector<std::optional<Time>> at;  // by instance: when it was reached
    std::vector<int> issued, rounds;      // by communicator
    std::vector<std::pair<int, int>> finished;
    Timeline timeline;
  };
  // One end of a message that an exchange sends or receives.
  struct MessageEnd {
    std::size_t rank = 0, stream = 0;
    const cost::Demand* demand = nullptr;
  };
  struct Meeting {
    std::deque<MessageEnd> sent, received;  // that the other end has not reached
  };
  struct Flight {
    std::vector<std::pair<std::size_t, std::size_t>> members;  // rank, stream
    bool message = false;
    std::vector<SharedResources::Use> uses;
    SharedResources::Work left = 0;
    std::uint64_t rate = 0;
    Time since;
    Time next;  // end of the latency, then of the work
    bool working = false;
  };

  static const std::vector<Instruction>& Pass(const Program& program, int pass) {
    return pass == 0 ? program.prologue : program.step;
  }

  void EndOf(Rank& rank, int pass, Time end) {
    if (pass == 0) return;
    Time& step_end = rank.timeline.step_ends[static_cast<std::size_t>(pass - 1)];
    step_end = std::max(step_end, end);
  }

  // Advances hosts as far as possible.
  bool Issue() {
    bool any = false;
    for (std::size_t c = 0; c < ranks_.size(); ++c) {
      Rank& rank = ranks_[c];
      const RankProgram& own = any_.ranks[c];
      while (rank.pass <= any_.steps) {
        const auto& instructions = Pass(own.program, rank.pass);
        if (rank.next == instructions.size()) {
          EndOf(rank, rank.pass, rank.clock);
          ++rank.pass;
          rank.next = 0;
          any = true;
          continue;
        }
        const Instruction& instruction = instructions[rank.next];
        Queued queued;
        queued.instruction = &instruction;
        queued.index = rank.next;
        queued.pass = rank.pass;
        bool on_stream = true;
        if (instruction.opcode == Opcode::kKernel) {
          rank.clock += own.prices.issue_kernel;
        } else if (instruction.opcode == Opcode::kCollective ||
                   instruction.opcode == Opcode::kExchange) {
          rank.clock += own.prices.issue_collective;
          const Index communicator = program::CommunicatorOf(own.program, instruction);
          queued.number = rank.issued[communicator]++;
          queued.round = rank.rounds[communicator];
          if (instruction.opcode == Opcode::kCollective) ++rank.rounds[communicator];
        } else if (instruction.opcode == Opcode::kRecordEvent) {
          queued.record = static_cast<int>(rank.at.size());
          rank.at.emplace_back();
          rank.latest[instruction.operand] = queued.record;
        } else if (instruction.opcode == Opcode::kWaitEvent) {
          queued.record = rank.latest[instruction.operand];
        } else if (instruction.opcode == Opcode::kHostWaitEvent) {
          const int record = rank.latest[instruction.operand];
          if (record >= 0) {
            if (!rank.at[static_cast<std::size_t>(record)]) break;
            rank.clock = std::max(rank.clock, *rank.at[static_cast<std::size_t>(record)]);
          }
          on_stream = false;
        } else {
          const Time end = rank.clock + own.program.host_tasks[instruction.operand].duration;
          if (rank.pass > 0) {
            rank.timeline.operations.push_back({rank.next,
                                                static_cast<std::uint32_t>(rank.pass - 1),
                                                rank.clock, rank.clock, rank.clock, end});
          }
          rank.clock = end;
          on_stream = false;
        }
        if (on_stream) {
          queued.issued = rank.clock;
          Stream& stream = rank.streams[instruction.stream];
          if (stream.queue.empty()) stream.free = now_;
          stream.queue.push_back(queued);
        }
        ++rank.next;
        any = true;
      }
    }
    return any;
  }

  void Pop(std::size_t c, std::size_t s) {
    Stream& stream = ranks_[c].streams[s];
    EndOf(ranks_[c], stream.queue.front().pass, now_);
    stream.queue.pop_front();
    stream.free = now_;
    stream.busy = false;
  }

  // Starts the front items of streams.
  bool Start() {
    bool any = false;
    for (std::size_t c = 0; c < ranks_.size(); ++c) {
      for (std::size_t s = 0; s < ranks_[c].streams.size(); ++s) {
        Stream& stream = ranks_[c].streams[s];
        if (stream.busy || stream.queue.empty() || stream.queue.front().issued > now_) continue;
        const Queued& front = stream.queue.front();
        const Opcode opcode = front.instruction->opcode;
        if (opcode == Opcode::kWaitEvent) {
          if (front.record >= 0 && !ranks_[c].at[static_cast<std::size_t>(front.record)]) continue;
          Pop(c, s);
        } else if (opcode == Opcode::kRecordEvent) {
          ranks_[c].at[static_cast<std::size_t>(front.record)] = now_;
          Pop(c, s);
        } else if (opcode == Opcode::kKernel) {
          Begin({{c, s}});
        } else if (opcode == Opcode::kExchange ? !Exchange(c, s) : !Meet(c, s)) {
          continue;
        }
        any = true;
      }
    }
    return any;
  }

  // Starts a collective when all members have reached it and earlier ones have ended.
  bool Meet(std::size_t c, std::size_t s) {
    const Program& program = any_.ranks[c].program;
    const Queued& front = ranks_[c].streams[s].queue.front();
    const Index communicator = program.collectives[front.instruction->operand].communicator;
    const std::string& name = program.communicators[communicator].name;
    std::vector<std::pair<std::size_t, std::size_t>> members;
    for (const int member : program.groups[program.communicators[communicator].group].ranks) {
      const auto other = static_cast<std::size_t>(member);
      const Program& others = any_.ranks[other].program;
      for (std::size_t t = 0; t < ranks_[other].streams.size(); ++t) {
        const Stream& stream = ranks_[other].streams[t];
        if (stream.busy || stream.queue.empty() || stream.queue.front().issued > now_) continue;
        const Queued& at = stream.queue.front();
        if (at.instruction->opcode != Opcode::kCollective || at.round != front.round) continue;
        const Index its = others.collectives[at.instruction->operand].communicator;
        if (others.communicators[its].name != name) continue;
        if (at.number == Finished(other, its)) members.emplace_back(other, t);
      }
    }
    const auto& ranks = program.groups[program.communicators[communicator].group].ranks;
    if (members.size() != ranks.size()) return false;
    Begin(std::move(members));
    return true;
  }

  // Makes all messages available to their peers, and starts those whose peers are ready.
  bool Exchange(std::size_t c, std::size_t s) {
    const Program& program = any_.ranks[c].program;
    Stream& stream = ranks_[c].streams[s];
    const Queued& front = stream.queue.front();
    const program::Exchange& exchange = program.exchanges[front.instruction->operand];
    if (front.number != Finished(c, exchange.communicator)) return false;
    const program::Communicator& communicator = program.communicators[exchange.communicator];
    const std::vector<int>& group = program.groups[communicator.group].ranks;
    const auto own = std::find(group.begin(), group.end(), static_cast<int>(c)) - group.begin();
    stream.busy = true;
    stream.ready = std::max(stream.free, front.issued);
    stream.waiting = stream.open = exchange.messages.size();
    for (std::size_t i = 0; i < exchange.messages.size(); ++i) {
      const program::Message& message = exchange.messages[i];
      const int peer = group[static_cast<std::size_t>(
          exchange.PeerPosition(message, static_cast<int>(own), static_cast<int>(group.size())))];
      const bool sends = message.direction == program::MessageDirection::kSend;
      const int from = sends ? static_cast<int>(c) : peer;
      const int to = sends ? peer : static_cast<int>(c);
      Meeting& meeting = meetings_[{communicator.name, from, to}];
      const cost::Demand& demand =
          any_.ranks[c].prices.exchanges[front.instruction->operand][i].demand;
      (sends ? meeting.sent : meeting.received).push_back({c, s, &demand});
      stream.held += HeldBy(demand);
      if (meeting.sent.empty() || meeting.received.empty()) continue;
      const std::vector<MessageEnd> ends = {meeting.sent.front(), meeting.received.front()};
      meeting.sent.pop_front();
      meeting.received.pop_front();
      std::vector<std::pair<std::size_t, const cost::Demand*>> demands;
      Flight flight;
      flight.message = true;
      for (const MessageEnd& end : ends) {
        flight.members.emplace_back(end.rank, end.stream);
        demands.emplace_back(end.rank, end.demand);
        Stream& its = ranks_[end.rank].streams[end.stream];
        if (--its.waiting == 0) its.start = now_;
        its.held -= HeldBy(*end.demand);
      }
      Fly(std::move(flight), demands, /*collective=*/false);
    }
    return true;
  }

  // The multiprocessors held by a waiting operation.
  static std::uint32_t HeldBy(const cost::Demand& demand) {
    constexpr auto kCompute = static_cast<std::size_t>(cost::Resource::kCompute);
    return demand.work == Time() ? 0 : SharedResources::Share(demand.share[kCompute]);
  }
  // Only the largest among the same ranks holds.
  struct Hold {
    std::vector<int> ranks;
    SharedResources::Use use;
  };
  void AddHold(std::size_t c, const Stream& stream, std::vector<Hold>& holds) const {
    if (stream.queue.empty() || stream.queue.front().issued > now_) return;
    const Queued& front = stream.queue.front();
    const Program& program = any_.ranks[c].program;
    const Index its = program::CommunicatorOf(program, *front.instruction);
    if (its == program::kNone) return;
    std::uint32_t held = stream.held;
    if (!stream.busy) {
      const bool waits =
          front.instruction->opcode == Opcode::kCollective && front.number == Finished(c, its);
      held = waits ? HeldBy(DemandOf(c, front)) : 0;
    }
    if (held == 0) return;
    const auto& ranks = program.groups[program.communicators[its].group].ranks;
    const auto resource = static_cast<std::uint32_t>(c * cost::kResources);
    auto hold = std::find_if(holds.begin(), holds.end(), [&](const Hold& known) {
      return known.ranks == ranks && known.use.resource == resource;
    });
    if (hold == holds.end()) hold = holds.insert(hold, {ranks, {resource, 0}});
    hold->use.share =
        std::max<std::uint64_t>(hold->use.share, std::min(held, SharedResources::kWhole));
  }

  int Finished(std::size_t c, Index communicator) const {
    int finished = 0;
    for (const auto& [its, count] : ranks_[c].finished) {
      if (its == static_cast<int>(communicator)) finished = count;
    }
    return finished;
  }

  const cost::Demand& DemandOf(std::size_t c, const Queued& queued) const {
    const cost::Prices& prices = any_.ranks[c].prices;
    return queued.instruction->opcode == Opcode::kKernel
               ? prices.kernels[queued.instruction->operand]
               : prices.collectives[queued.instruction->operand].demand;
  }

  void Begin(std::vector<std::pair<std::size_t, std::size_t>> members) {
    std::vector<std::pair<std::size_t, const cost::Demand*>> demands;
    bool collective = false;
    for (const auto& [c, s] : members) {
      Stream& stream = ranks_[c].streams[s];
      const Queued& front = stream.queue.front();
      collective = front.instruction->opcode == Opcode::kCollective;
      demands.emplace_back(c, &DemandOf(c, front));
      stream.busy = true;
      stream.ready = std::max(stream.free, front.issued);
      stream.start = now_;
    }
    Flight flight;
    flight.members = std::move(members);
    Fly(std::move(flight), demands, collective);
  }

  // In a program with exchanges, a collective receives as much as it sends.
  double ShareOf(std::size_t c, const cost::Demand& demand, std::size_t resource,
                 bool collective) const {
    if (collective && !any_.ranks[c].program.exchanges.empty()) {
      if (resource == static_cast<std::size_t>(cost::Resource::kScaleUpIn)) {
        resource = static_cast<std::size_t>(cost::Resource::kScaleUp);
      } else if (resource == static_cast<std::size_t>(cost::Resource::kNetworkIn)) {
        resource = static_cast<std::size_t>(cost::Resource::kNetwork);
      }
    }
    return demand.share[resource];
  }

  void Fly(Flight flight, const std::vector<std::pair<std::size_t, const cost::Demand*>>& demands,
           bool collective) {
    Time latency, work;
    for (const auto& [c, demand] : demands) {
      latency = std::max(latency, demand->latency);
      work = std::max(work, demand->work);
    }
    for (const auto& [c, demand] : demands) {
      if (demand->work == Time()) continue;
      for (std::size_t r = 0; r < demand->share.size(); ++r) {
        auto share = SharedResources::Share(ShareOf(c, *demand, r, collective));
        if (share == 0) continue;
        if (demand->work < work) share = static_cast<std::uint32_t>(share * (demand->work / work));
        const auto resource = static_cast<std::uint32_t>(c * cost::kResources + r);
        const auto same = std::find_if(flight.uses.begin(), flight.uses.end(),
                                       [&](const auto& use) { return use.resource == resource; });
        if (same == flight.uses.end()) {
          flight.uses.push_back({resource, share});
        } else {
          same->share += share;
        }
      }
    }
    flight.left = SharedResources::Done(work, SharedResources::kFullRate);
    flight.rate = SharedResources::kFullRate;
    flight.next = now_ + latency;
    flights_.push_back(std::move(flight));
  }

  bool Finish() {
    bool any = false;
    for (std::size_t f = 0; f < flights_.size();) {
      Flight& flight = flights_[f];
      if (flight.next > now_) {
        ++f;
        continue;
      }
      any = true;
      if (!flight.working) {
        flight.working = true;
        flight.since = now_;
        flight.next = flight.left == 0 ? now_ : Time::Max();  // until rates are solved
        if (flight.uses.empty()) {
          flight.next = now_ + SharedResources::TimeFor(flight.left, SharedResources::kFullRate);
        }
        continue;
      }
      const Flight over = std::move(flight);
      flights_.erase(flights_.begin() + static_cast<std::ptrdiff_t>(f));
      for (const auto& [c, s] : over.members) {
        if (!over.message || --ranks_[c].streams[s].open == 0) End(c, s);
      }
    }
    return any;
  }

  void End(std::size_t c, std::size_t s) {
    Rank& rank = ranks_[c];
    const Stream& stream = rank.streams[s];
    const Queued& front = stream.queue.front();
    const Index of = program::CommunicatorOf(any_.ranks[c].program, *front.instruction);
    if (of != program::kNone) {
      const auto communicator = static_cast<int>(of);
      std::erase_if(rank.finished, [&](const auto& f) { return f.first == communicator; });
      rank.finished.emplace_back(communicator, front.number + 1);
    }
    if (front.pass > 0) {
      rank.timeline.operations.push_back({front.index, static_cast<std::uint32_t>(front.pass - 1),
                                          front.issued, stream.ready, stream.start, now_});
    }
    Pop(c, s);
  }

  void Solve() {
    std::vector<Flight*> sharing;
    for (Flight& flight : flights_) {
      if (!flight.working || flight.uses.empty()) continue;
      const auto done = SharedResources::Done(now_ - flight.since, flight.rate);
      flight.left -= std::min(done, flight.left);
      flight.since = now_;
      sharing.push_back(&flight);
    }
    std::vector<Hold> holds;
    for (std::size_t c = 0; c < ranks_.size(); ++c) {
      for (const Stream& stream : ranks_[c].streams) AddHold(c, stream, holds);
    }
    const auto count = static_cast<SharedResources::Activity>(sharing.size());
    SharedResources resources(static_cast<std::uint32_t>(ranks_.size()) * cost::kResources,
                              count + static_cast<SharedResources::Activity>(holds.size()));
    for (std::size_t h = 0; h < holds.size(); ++h) {
      resources.Start(count + static_cast<SharedResources::Activity>(h), now_, Seconds(1),
                      {&holds[h].use, 1});
    }
    for (SharedResources::Activity a = 0; a < count; ++a) {
      resources.Start(a, now_, sharing[a]->left, sharing[a]->uses);
    }
    resources.Settle(now_);
    for (SharedResources::Activity a = 0; a < count; ++a) {
      sharing[a]->rate = resources.rate_units(a);
      sharing[a]->next = now_ + SharedResources::TimeFor(sharing[a]->left, sharing[a]->rate);
    }
  }

  const Case& any_;
  Time now_;
  std::vector<Rank> ranks_;
  std::vector<Flight> flights_;
  std::map<std::tuple<std::string, int, int>, Meeting> meetings_;  // by communicator, from and to
};

using Record = std::tuple<std::uint32_t, Index, Time, Time, Time, Time>;
std::vector<Record> RecordsOf(const Timeline& timeline) {
  std::vector<Record> records;
  for (const auto& record : timeline.operations) {
    records.emplace_back(record.step, record.instruction, record.issued, record.ready, record.start,
                         record.end);
  }
  std::sort(records.begin(), records.end());
  return records;
}

bool Same(const Timeline& a, const Timeline& b) {
  return a.step_ends == b.step_ends && RecordsOf(a) == RecordsOf(b) &&
         std::equal(a.waits.begin(), a.waits.end(), b.waits.begin(), b.waits.end(),
                    [](const auto& x, const auto& y) {
                      return std::tie(x.instruction, x.step, x.start, x.end) ==
                             std::tie(y.instruction, y.step, y.start, y.end);
                    });
}

RC_GTEST_PROP(ClassesTest, DifferentClassesRunAsEventByEvent, ()) {
  const Case any = *AnyCase();
  const auto timelines = Simulate(any.Classes(), {.steps = any.steps});
  RC_ASSERT(timelines.has_value());
  const std::vector<Timeline> expected = EventByEvent(any).Run();
  for (std::size_t c = 0; c < expected.size(); ++c) {
    RC_ASSERT(timelines->at(c).step_ends == expected[c].step_ends);
    RC_ASSERT(RecordsOf(timelines->at(c)) == RecordsOf(expected[c]));
  }
}

// Ranks of a ring with equal programs give the same result as one class or as separate classes.
RC_GTEST_PROP(ClassesTest, ARingOfEqualRanksRunsAsOne, ()) {
  const int ranks = *rc::gen::inRange(2, 6);
  std::vector<int> all;
  for (int r = 0; r < ranks; ++r) all.push_back(r);
  TestProgram test(2);
  RankProgram own;
  const Index ring = test.AddCommunicator("ring", all);
  const Index kernel = test.AddKernel("kernel");
  own.prices.kernels.push_back(AnyDemand());
  test.Step();
  const int exchanges = *rc::gen::inRange(1, 5);
  for (int e = 0; e < exchanges; ++e) {
    std::vector<program::Message> messages;
    const int pairs = *rc::gen::inRange(1, 4);
    for (int i = 0; i < pairs; ++i) {
      const int distance = *rc::gen::inRange(1, ranks);
      messages.push_back(TestProgram::Send(distance, Bytes(8)));
      messages.push_back(TestProgram::Receive(-distance, Bytes(8)));
    }
    for (auto& price : own.prices.exchanges.emplace_back(messages.size())) {
      price.demand = AnyDemand();
    }
    test.Run(0, kernel).Exchange(
        e % 2, test.AddExchange(ring, std::move(messages), program::PeerNaming::kDistance));
  }
  own.program = test.program();
  const RankClass one = {
      .program = &own.program, .prices = &own.prices, .representative = 0, .ranks = all};
  std::vector<RankClass> each;
  for (int r = 0; r < ranks; ++r) {
    each.push_back({.program = &own.program, .prices = &own.prices, .representative = r});
  }
  const Options options{.steps = 3, .run_ahead = *rc::gen::arbitrary<bool>()};
  const auto alone = Simulate({&one, 1}, options);
  const auto together = Simulate(each, options);
  RC_ASSERT(alone.has_value() && together.has_value());
  for (int r = 0; r < ranks; ++r) RC_ASSERT(Same(together->at(r), alone->front()));
}

// How far a class runs ahead by itself does not affect results.
RC_GTEST_PROP(ClassesTest, RunningAheadShowsInNothing, ()) {
  const Case any = *AnyCase();
  Options options{.steps = any.steps, .barrier = *rc::gen::arbitrary<bool>()};
  const auto ahead = Simulate(any.Classes(), options);
  options.run_ahead = false;
  const auto together = Simulate(any.Classes(), options);
  RC_ASSERT(ahead.has_value() && together.has_value());
  for (std::size_t c = 0; c < any.ranks.size(); ++c) {
    RC_ASSERT(Same(ahead->at(c), together->at(c)));
  }
}

RC_GTEST_PROP(ClassesTest, TheOrderOfClassesDoesNotMatter, ()) {
  const Case any = *AnyCase();
  std::vector<RankClass> classes = any.Classes();
  const auto timelines = Simulate(classes, {.steps = any.steps});
  RC_ASSERT(timelines.has_value());
  std::reverse(classes.begin(), classes.end());
  const auto reversed = Simulate(classes, {.steps = any.steps});
  RC_ASSERT(reversed.has_value());
  for (std::size_t c = 0; c < classes.size(); ++c) {
    RC_ASSERT(Same(timelines->at(c), reversed->at(classes.size() - 1 - c)));
  }
}

// A run of several classes that ends with a repetition gives the ends of the omitted steps.
RC_GTEST_PROP(ClassesTest, ARepeatedStepStandsForTheRest, ()) {
  Case any = *AnyCase();
  any.steps = *rc::gen::inRange(3, 9);
  const std::vector<RankClass> classes = any.Classes();
  const auto full = Simulate(classes, {.steps = any.steps});
  RC_ASSERT(full.has_value());
  Simulator simulator;
  const auto shorter = simulator.Run(classes, {.steps = any.steps,
                                               .recording = Recording::kNone,
                                               .until_repetition = true,
                                               .run_ahead = *rc::gen::arbitrary<bool>()});
  RC_ASSERT(shorter.has_value());
  RC_TAG(simulator.repetition() == nullptr ? -1 : simulator.repetition()->step);
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const auto& ends = full->at(c).step_ends;
    // Nothing after the last step can slow it.
    RC_ASSERT(std::equal(ends.begin(), ends.end() - 1, (*shorter)[c].step_ends.begin()));
  }
}

}  // namespace
}  // namespace stepcast::simulate
