#include <string>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/collective_kind.h"
#include "src/base/data_type.h"
#include "src/program/description.h"
#include "src/simulate/run.h"

// A run that came to rest with work left: who stands where, and what for.
namespace stepcast::simulate {
namespace {

std::string PassText(std::uint32_t pass) {
  return pass == 0 ? "prologue" : fmt::format("step {}", pass - 1);
}

}  // namespace

Deadlock ProgramRun::Explain() const {
  Deadlock deadlock;
  for (std::uint32_t c = 0; c < runs_.size(); ++c) {
    ExplainHost(c, deadlock);
    const std::size_t end = runs_[c].first_stream + ScheduleOf(c).streams.size();
    for (std::size_t s = runs_[c].first_stream; s < end; ++s) {
      ExplainStream(streams_[s], deadlock);
    }
  }
  return deadlock;
}

void ProgramRun::ExplainHost(std::uint32_t c, Deadlock& deadlock) const {
  const ClassRun& run = runs_[c];
  const int rank = classes_[c].representative;
  if (run.host_state == HostState::kAtBarrier) {
    deadlock.blocked.push_back(
        fmt::format("rank {}: the host waits for all work of {} before it issues the next step",
                    rank, PassText(run.pass - 1)));
  } else if (run.host_state == HostState::kAwaitsRecord) {
    const Index wait = ScheduleOf(c).segments[run.segment - 1].wait;
    deadlock.blocked.push_back(fmt::format(
        "rank {}, {}: the host stands at {} until {} is reached", rank, PassText(run.pass),
        Describe(ProgramOf(c), InstructionAt(c, run.pass, wait)), RecordText(c, run.wait_for)));
  }
}

void ProgramRun::ExplainStream(const StreamRun& run, Deadlock& deadlock) const {
  if (run.state == StreamState::kDone) return;
  const Item& item = ScheduleOf(run).items[run.item];
  const std::string who =
      fmt::format("rank {}, {}: {}", classes_[run.rank_class].representative, PassText(run.pass),
                  Describe(ProgramOf(run.rank_class),
                           InstructionAt(run.rank_class, run.pass, item.instruction)));
  switch (run.state) {
    case StreamState::kAwaitsHost:
      deadlock.blocked.push_back(fmt::format("{} has not been issued by the host", who));
      break;
    case StreamState::kAwaitsRecord:
      deadlock.blocked.push_back(fmt::format("{} stands until {} is reached", who,
                                             RecordText(run.rank_class, run.wait_for)));
      break;
    case StreamState::kAtCollective:
      ExplainCollective(run, who, deadlock);
      break;
    case StreamState::kReady:
    case StreamState::kLooksLater:
    case StreamState::kRuns:
    case StreamState::kDone:
      STEPCAST_CHECK(false, "what runs has an event to come");
  }
}

void ProgramRun::ExplainCollective(const StreamRun& run, const std::string& who,
                                   Deadlock& deadlock) const {
  const ClassRun& owner = runs_[run.rank_class];
  const Rendezvous& rendezvous =
      rendezvous_[rendezvous_of_[owner.first_communicator + run.wait_for.slot]];
  if (run.wait_for.count != rendezvous.current) {
    deadlock.blocked.push_back(fmt::format(
        "{} waits for its turn on its communicator: it is collective {}, and collective "
        "{} has not finished",
        who, run.wait_for.count, rendezvous.current));
    return;
  }
  for (const Member& member : rendezvous.members) {
    if (member.rank_class == run.rank_class) continue;
    const int rank = classes_[member.rank_class].representative;
    if (member.arrived == kNone) {
      deadlock.blocked.push_back(
          fmt::format("{} waits for rank {}, which has not reached it", who, rank));
    } else if (!SameCollective(owner.first_stream + run.stream, member.arrived)) {
      deadlock.blocked.push_back(fmt::format("{} is {}, but rank {} has come with {}", who,
                                             SpecText(CollectiveAt(run)), rank,
                                             SpecText(CollectiveAt(streams_[member.arrived]))));
    }
  }
  for (const std::uint32_t c : rendezvous.absent) {
    deadlock.blocked.push_back(
        fmt::format("{} waits for rank {}, which has no communicator of this name and these ranks",
                    who, classes_[c].representative));
  }
}

std::string ProgramRun::RecordText(std::uint32_t c, WaitFor wait_for) const {
  const Schedule& schedule = ScheduleOf(c);
  const bool in_prologue = wait_for.slot < schedule.prologue_records;
  const std::uint32_t pass = in_prologue ? 0 : wait_for.count;
  return fmt::format(
      "{} of {}",
      Describe(ProgramOf(c), InstructionAt(c, pass, schedule.records[wait_for.slot].instruction)),
      PassText(pass));
}

const program::Collective& ProgramRun::CollectiveAt(const StreamRun& run) const {
  return ProgramOf(run.rank_class).collectives[ScheduleOf(run).items[run.item].target];
}

std::string ProgramRun::SpecText(const program::Collective& collective) {
  return fmt::format("{} of {} B {}", Name(collective.kind), collective.bytes.count(),
                     Name(collective.data_type));
}

}  // namespace stepcast::simulate
