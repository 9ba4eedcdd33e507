#include "src/network/message.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "fmt/format.h"
#include "src/base/check.h"
#include "src/base/rates.h"
#include "src/collective/ring.h"
#include "src/engine/event_queue.h"

namespace stepcast::network {
namespace {

using collective::kNobody;
using collective::Ring;
using collective::Step;
using collective::StepList;

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// An event: a message arrives on a line; a line has put its whole message on crowded links; the
// line that a worker waits for is free; a party enters its next call.
struct Happening {
  enum Kind : std::uint32_t { kArrival, kDeparture, kFree, kEntry };
  std::uint32_t kind : 2;
  std::uint32_t index : 30;
};
constexpr std::size_t kMostIndices = std::size_t{1} << 30;

// `List` is the type of all step lists: a final class, so that its steps are computed in place, or
// the base class.
template <typename List>
class Simulation final : public MessageNetwork::Engine {
 public:
  // `one_call_at_a_time`: the calls of a job do not load each other's links.
  Simulation(const Network& network, std::span<const MessageJob> jobs, bool one_call_at_a_time);
  tl::expected<MessageRun, Deadlock> Run();

  void Start(std::uint32_t job, std::uint32_t call, Time at) override;
  bool idle() const override { return queue_.empty(); }
  Time next() const override { return queue_.Top().time; }
  void Advance(std::vector<std::uint32_t>& ended) override;
  std::int64_t messages() const override { return result_.messages; }

 private:
  // A connection that carries messages.
  struct Line {
    std::int64_t free = 0;  // when its last message has left, in picoseconds
    std::int64_t latency = 0;
    std::int64_t bytes = -1;  // size of the last message; determines `lasts`
    std::int64_t lasts = 0;
    Bandwidth rate{};
    std::uint32_t to = 0;    // worker
    std::uint32_t from = 0;  // worker in its call
    std::uint32_t arrived = 0;
    std::uint32_t first_crossing = 0;
    std::uint32_t crossings = 0;
    std::uint32_t waiting = kNone;  // the worker that waits to send, while a message departs
    std::int32_t stage = 0;
    bool departs = false;  // over crowded links, until it is known when it has left
  };
  // A crowded link that a line crosses, and the line's load on it.
  struct Crossing {
    std::uint32_t link = 0;
    double rate = 0;  // bytes per second
  };
  // The bytes that a crowded link has not yet transmitted.
  struct Queue {
    double bandwidth = 0;  // bytes per second
    double inflow = 0;
    double bytes = 0;  // at `since`
    std::int64_t since = 0;
    int lines = 0;  // number of lines that send over the link

    void Pass(std::int64_t now) {
      const double seconds = static_cast<double>(now - since) * 1e-12;
      bytes = std::max(0.0, bytes + (inflow - bandwidth) * seconds);
      since = now;
    }
  };
  struct Worker {
    std::int64_t next = 0;   // step
    std::int64_t count = 0;  // steps of the call
    const List* list = nullptr;
    std::uint32_t number = 0;         // in its call
    std::uint32_t call = 0;           // in calls_
    std::uint32_t party = 0;          // in parties_
    std::uint32_t waits_for = kNone;  // a message over this line; else it works or is done
    bool waits_to_send = false;       // and has received what the step receives
    std::uint32_t only_line = kNone;  // where it sends to one other worker
    std::uint32_t last_line = kNone;  // over which it sent last, where there are several
    Step step{};                      // the worker's next step
  };
  struct Call {
    const Traffic* traffic = nullptr;
    std::uint32_t first_worker = 0;
    std::uint32_t first_line = 0;
  };
  // A rank in a job, or a switch in one call, which it joins at the call's start.
  struct Party {
    int job = 0;
    int participant = 0;
    std::vector<std::uint32_t> calls{};  // in its order, in calls_
    std::size_t entered = 0;
    std::uint32_t busy_workers = 0;
    std::int64_t sent = 0;        // when all that it sent has left, but for
    std::uint32_t departing = 0;  // messages of which that is not known yet
    std::int64_t end = 0;
    bool driven = false;  // called by Start
  };
  // The parties [first, end) of a running job.
  struct Cast {
    std::uint32_t first = 0;
    std::uint32_t end = 0;
    std::uint32_t busy = 0;
  };

  void AddJob(const MessageJob& job, int number);
  void FindCrowdedLinks(bool one_call_at_a_time);
  void Process();
  void Enter(std::uint32_t party, std::int64_t now);
  void Begin(Worker& worker, std::int64_t now);
  void Advance(Worker& worker, std::int64_t now);
  bool Send(Worker& worker, std::int64_t now);
  void WaitFor(Line& line, Worker& worker);
  void Depart(std::uint32_t number, std::int64_t now);
  void Leave(std::uint32_t number, Party& party, std::int64_t left);
  void Finish(Worker& worker, std::int64_t now);
  std::uint32_t LineOf(const Worker& worker, int from, int to) const;
  Deadlock Explain() const;

  const Network& network_;
  std::span<const MessageJob> jobs_;
  std::vector<Line> lines_;
  std::vector<Crossing> crossings_;
  std::vector<Queue> queues_;  // [link]
  std::vector<Worker> workers_;
  std::vector<Call> calls_;
  std::vector<std::uint32_t> first_call_;  // [job]
  std::vector<Party> parties_;
  engine::EventQueue<Happening> queue_;
  std::vector<Cast> casts_;           // [job]
  std::vector<std::uint32_t> ended_;  // jobs whose call has ended, by Start
  MessageRun result_;
};

template <typename List>
Simulation<List>::Simulation(const Network& network, std::span<const MessageJob> jobs,
                             bool one_call_at_a_time)
    : network_(network), jobs_(jobs), queues_(static_cast<std::size_t>(network.links())) {
  for (std::size_t job = 0; job < jobs.size(); ++job) AddJob(jobs[job], static_cast<int>(job));
  STEPCAST_CHECK(lines_.size() < kMostIndices && workers_.size() < kMostIndices,
                 "the numbers of lines and workers must each fit in 30 bits");
  FindCrowdedLinks(one_call_at_a_time);
  queue_.Reserve(std::min<std::size_t>(lines_.size(), 1 << 20));
}

template <typename List>
void Simulation<List>::AddJob(const MessageJob& job, int number) {
  const auto first_call = static_cast<std::uint32_t>(calls_.size());
  first_call_.push_back(first_call);
  if (job.calls.empty()) {
    result_.rank_ends.emplace_back();
    result_.ends.emplace_back();
    casts_.emplace_back();
    return;
  }
  const auto first_party = static_cast<std::uint32_t>(parties_.size());
  const int ranks = job.calls.front()->list().ranks();
  STEPCAST_CHECK(job.orders.empty() || static_cast<int>(job.orders.size()) == ranks,
                 "either all ranks of a job must have an order of calls, or no rank");
  for (int rank = 0; rank < ranks; ++rank) {
    Party party{.job = number, .participant = rank};
    if (job.orders.empty()) {
      for (std::size_t call = 0; call < job.calls.size(); ++call) {
        party.calls.push_back(first_call + static_cast<std::uint32_t>(call));
      }
    } else {
      for (const int call : job.orders[static_cast<std::size_t>(rank)]) {
        STEPCAST_CHECK(call >= 0 && static_cast<std::size_t>(call) < job.calls.size(),
                       "an order of calls must list only calls of the same job");
        party.calls.push_back(first_call + static_cast<std::uint32_t>(call));
      }
    }
    parties_.push_back(std::move(party));
  }
  result_.rank_ends.emplace_back(static_cast<std::size_t>(ranks));
  result_.ends.emplace_back();

  for (const Traffic* traffic : job.calls) {
    const auto& list = static_cast<const List&>(traffic->list());
    STEPCAST_CHECK(&traffic->network() == &network_ && list.ranks() == ranks,
                   "all calls of a job must use the same ranks and the same network");
    const Call call{.traffic = traffic,
                    .first_worker = static_cast<std::uint32_t>(workers_.size()),
                    .first_line = static_cast<std::uint32_t>(lines_.size())};
    const auto first_switch = static_cast<std::uint32_t>(parties_.size());
    // A switch joins a call as often as the rank that makes this call most often.
    const auto index = static_cast<std::uint32_t>(calls_.size());
    std::ptrdiff_t times = 0;
    for (std::uint32_t rank = first_party; rank < first_party + static_cast<std::uint32_t>(ranks);
         ++rank) {
      const std::vector<std::uint32_t>& calls = parties_[rank].calls;
      times = std::max(times, std::count(calls.begin(), calls.end(), index));
    }
    for (int i = 0; i < list.switches(); ++i) {
      parties_.push_back({.job = number, .participant = ranks + i});
      parties_.back().calls.assign(static_cast<std::size_t>(times), index);
    }
    for (int i = 0; i < list.workers(); ++i) {
      const int participant = list.ParticipantOf(i);
      const auto party = participant < ranks
                             ? first_party + static_cast<std::uint32_t>(participant)
                             : first_switch + static_cast<std::uint32_t>(participant - ranks);
      Worker worker{.count = list.StepCount(i),
                    .list = &list,
                    .number = static_cast<std::uint32_t>(i),
                    .call = index,
                    .party = party};
      if (traffic->From(i).size() == 1) {
        worker.only_line = call.first_line + traffic->Find(i, traffic->From(i).front().to);
      }
      workers_.push_back(worker);
    }
    for (const Connection& connection : traffic->connections()) {
      lines_.push_back({.latency = connection.latency.picoseconds(),
                        .rate = connection.rate,
                        .to = call.first_worker + static_cast<std::uint32_t>(connection.to),
                        .from = static_cast<std::uint32_t>(connection.from),
                        .stage = connection.stage});
    }
    calls_.push_back(call);
  }
  casts_.push_back({first_party, static_cast<std::uint32_t>(parties_.size()), 0});
}

// Only links that all lines together can overload are crowded; messages wait only for those.
template <typename List>
void Simulation<List>::FindCrowdedLinks(bool one_call_at_a_time) {
  std::vector<double> most(queues_.size());
  for (std::size_t id = 0; id < queues_.size(); ++id) {
    queues_[id].bandwidth =
        static_cast<double>(network_.link(static_cast<int>(id)).bandwidth.bytes_per_second());
  }
  const auto rate = [](const Connection& connection, const Share& share) {
    return share.part * static_cast<double>(connection.rate.bytes_per_second());
  };
  std::vector<double> of_call(queues_.size());
  std::vector<double> of_job(queues_.size());
  std::vector<std::size_t> used;  // by the job
  for (std::size_t job = 0; job < jobs_.size(); ++job) {
    const std::uint32_t first = first_call_[job];
    for (std::uint32_t i = first; i < first + jobs_[job].calls.size(); ++i) {
      const Traffic& traffic = *calls_[i].traffic;
      for (const Connection& connection : traffic.connections()) {
        for (const Share& share : traffic.SharesOf(connection)) {
          of_call[static_cast<std::size_t>(share.link)] += rate(connection, share);
        }
      }
      for (const Traffic::Load& load : traffic.loads()) {
        const auto link = static_cast<std::size_t>(load.link);
        if (of_job[link] == 0) used.push_back(link);
        of_job[link] = one_call_at_a_time ? std::max(of_job[link], of_call[link])
                                          : of_job[link] + of_call[link];
        of_call[link] = 0;
      }
      // Connections without bytes also have a rate.
      for (const Connection& connection : traffic.connections()) {
        for (const Share& share : traffic.SharesOf(connection)) {
          of_call[static_cast<std::size_t>(share.link)] = 0;
        }
      }
    }
    for (const std::size_t link : used) {
      most[link] += of_job[link];
      of_job[link] = 0;
    }
    used.clear();
  }
  constexpr double kRounding = 1 + 1e-9;
  std::size_t line = 0;
  for (const Call& call : calls_) {
    for (const Connection& connection : call.traffic->connections()) {
      Line& crossing = lines_[line++];
      crossing.first_crossing = static_cast<std::uint32_t>(crossings_.size());
      for (const Share& share : call.traffic->SharesOf(connection)) {
        const auto link = static_cast<std::size_t>(share.link);
        if (most[link] <= queues_[link].bandwidth * kRounding) continue;
        crossings_.push_back(
            {.link = static_cast<std::uint32_t>(link), .rate = rate(connection, share)});
        ++crossing.crossings;
      }
    }
  }
}

template <typename List>
std::uint32_t Simulation<List>::LineOf(const Worker& worker, int from, int to) const {
  const Call& call = calls_[worker.call];
  return call.first_line + call.traffic->Find(from, to);
}

// A party enters its next call, if it has one.
template <typename List>
void Simulation<List>::Enter(std::uint32_t number, std::int64_t now) {
  Party& party = parties_[number];
  party.end = now;
  if (party.entered == party.calls.size()) {
    if (party.driven && --casts_[static_cast<std::size_t>(party.job)].busy == 0) {
      ended_.push_back(static_cast<std::uint32_t>(party.job));
    }
    return;
  }
  const Call& call = calls_[party.calls[party.entered++]];
  const StepList& list = call.traffic->list();
  party.busy_workers = static_cast<std::uint32_t>(list.channels() * list.lanes());
  for (int channel = 0; channel < list.channels(); ++channel) {
    for (int lane = 0; lane < list.lanes(); ++lane) {
      const int worker = list.WorkerOf(channel, party.participant, lane);
      Begin(workers_[call.first_worker + static_cast<std::uint32_t>(worker)], now);
    }
  }
}

template <typename List>
void Simulation<List>::Begin(Worker& worker, std::int64_t now) {
  worker.next = 0;
  if (worker.count == 0) {
    Finish(worker, now);
    return;
  }
  worker.step = worker.list->At(static_cast<int>(worker.number), 0);
  Advance(worker, now);
}

// Runs steps until a step must wait.
template <typename List>
void Simulation<List>::Advance(Worker& worker, std::int64_t now) {
  for (;;) {
    const Step& step = worker.step;
    if (step.receive_from != kNobody && !worker.waits_to_send) {
      // Usually the line whose message woke the worker.
      std::uint32_t line = worker.waits_for;
      if (line == kNone || static_cast<int>(lines_[line].from) != step.receive_from) {
        const Worker& sender = workers_[calls_[worker.call].first_worker +
                                        static_cast<std::uint32_t>(step.receive_from)];
        line = sender.only_line != kNone
                   ? sender.only_line
                   : LineOf(worker, step.receive_from, static_cast<int>(worker.number));
      }
      worker.waits_for = line;
      if (lines_[line].arrived == 0) return;
      --lines_[line].arrived;
    }
    if (step.send_to != kNobody && !Send(worker, now)) return;
    if (++worker.next == worker.count) break;
    worker.step = worker.list->At(static_cast<int>(worker.number), worker.next);
  }
  worker.waits_for = kNone;
  Finish(worker, now);
}

// The worker continues when `line`'s message has left.
template <typename List>
void Simulation<List>::WaitFor(Line& line, Worker& worker) {
  line.waiting = static_cast<std::uint32_t>(&worker - workers_.data());
  worker.waits_to_send = true;
  worker.waits_for = kNone;
}

// Returns false if the worker must wait until earlier messages have left.
template <typename List>
bool Simulation<List>::Send(Worker& worker, std::int64_t now) {
  const Step& step = worker.step;
  const std::uint32_t number = worker.only_line != kNone
                                   ? worker.only_line
                                   : LineOf(worker, static_cast<int>(worker.number), step.send_to);
  Line& line = lines_[number];
  std::int64_t free = line.free;
  if (worker.only_line == kNone) {
    // A message of another stage must leave first.
    if (worker.last_line != kNone && lines_[worker.last_line].stage != line.stage) {
      Line& last = lines_[worker.last_line];
      if (last.departs) {
        WaitFor(last, worker);
        return false;
      }
      free = std::max(free, last.free);
    }
  }
  if (line.departs) {
    WaitFor(line, worker);
    return false;
  }
  // A worker that sends only on this line, over links without other traffic, need not be woken: it
  // makes no difference whether it waits or its message does.
  worker.waits_to_send = free > now && (line.crossings > 0 || worker.only_line == kNone);
  if (worker.waits_to_send) {
    worker.waits_for = kNone;
    queue_.Push(Time::FromPicoseconds(free),
                {Happening::kFree, static_cast<std::uint32_t>(&worker - workers_.data())});
    return false;
  }
  if (line.bytes != step.bytes) {
    line.bytes = step.bytes;
    line.lasts = (Bytes(step.bytes) / line.rate).picoseconds();
  }
  ++result_.messages;
  if (worker.only_line == kNone) worker.last_line = number;
  Party& party = parties_[worker.party];
  if (line.crossings == 0) {
    Leave(number, party, std::max(now, line.free) + line.lasts);
    return true;
  }
  for (std::uint32_t i = 0; i < line.crossings; ++i) {
    const Crossing& crossing = crossings_[line.first_crossing + i];
    Queue& link = queues_[crossing.link];
    link.Pass(now);
    link.inflow += crossing.rate;
    ++link.lines;
  }
  line.departs = true;
  ++party.departing;
  queue_.Push(Time::FromPicoseconds(now + line.lasts), {Happening::kDeparture, number});
  return true;
}

// Puts a complete message on its links. The message has left when the links have transmitted it and
// all earlier traffic.
template <typename List>
void Simulation<List>::Depart(std::uint32_t number, std::int64_t now) {
  Line& line = lines_[number];
  double seconds = 0;
  for (std::uint32_t i = 0; i < line.crossings; ++i) {
    const Crossing& crossing = crossings_[line.first_crossing + i];
    Queue& link = queues_[crossing.link];
    link.Pass(now);
    seconds = std::max(seconds, link.bytes / link.bandwidth);
    link.inflow = --link.lines == 0 ? 0 : link.inflow - crossing.rate;
  }
  const std::int64_t left = now + static_cast<std::int64_t>(std::ceil(seconds * 1e12));
  result_.queued += Time::FromPicoseconds(left - now);
  line.departs = false;
  const std::uint32_t call = workers_[line.to].call;
  Party& party = parties_[workers_[calls_[call].first_worker + line.from].party];
  --party.departing;
  Leave(number, party, left);
  if (line.waiting != kNone) {
    queue_.Push(Time::FromPicoseconds(left), {Happening::kFree, line.waiting});
    line.waiting = kNone;
  }
  if (party.departing == 0 && party.busy_workers == 0) {
    queue_.Push(Time::FromPicoseconds(std::max(left, party.sent)),
                {Happening::kEntry, static_cast<std::uint32_t>(&party - parties_.data())});
  }
}

template <typename List>
void Simulation<List>::Leave(std::uint32_t number, Party& party, std::int64_t left) {
  Line& line = lines_[number];
  line.free = left;
  party.sent = std::max(party.sent, left);
  queue_.Push(Time::FromPicoseconds(left + line.latency), {Happening::kArrival, number});
}

template <typename List>
void Simulation<List>::Finish(Worker& worker, std::int64_t now) {
  Party& party = parties_[worker.party];
  if (--party.busy_workers > 0 || party.departing > 0) return;
  const std::int64_t end = std::max(now, party.sent);
  queue_.Push(Time::FromPicoseconds(end), {Happening::kEntry, worker.party});
}

template <typename List>
void Simulation<List>::Process() {
  const auto event = queue_.Pop();
  const std::int64_t now = event.time.picoseconds();
  const std::uint32_t index = event.payload.index;
  if (event.payload.kind == Happening::kArrival) {
    Line& line = lines_[index];
    ++line.arrived;
    Worker& worker = workers_[line.to];
    if (worker.waits_for == index) Advance(worker, now);
  } else if (event.payload.kind == Happening::kDeparture) {
    Depart(index, now);
  } else if (event.payload.kind == Happening::kFree) {
    Advance(workers_[index], now);
  } else {
    Enter(index, now);
  }
}

template <typename List>
void Simulation<List>::Start(std::uint32_t job, std::uint32_t call, Time at) {
  Cast& cast = casts_[job];
  STEPCAST_CHECK(cast.busy == 0, "a job must not start a call before the previous call ends");
  const std::uint32_t index = first_call_[job] + call;
  const int ranks = calls_[index].traffic->list().ranks();
  for (std::uint32_t i = cast.first; i < cast.end; ++i) {
    Party& party = parties_[i];
    // A switch joins only the call for which it was created.
    const bool takes_part = party.participant < ranks || party.calls.front() == index;
    if (!takes_part) continue;
    party.driven = true;
    party.calls.assign(1, index);
    party.entered = 0;
    ++cast.busy;
    queue_.Push(at, {Happening::kEntry, i});
  }
}

template <typename List>
void Simulation<List>::Advance(std::vector<std::uint32_t>& ended) {
  const Time now = queue_.Top().time;
  while (!queue_.empty() && queue_.Top().time == now) Process();
  ended.insert(ended.end(), ended_.begin(), ended_.end());
  ended_.clear();
}

template <typename List>
tl::expected<MessageRun, Deadlock> Simulation<List>::Run() {
  for (std::uint32_t party = 0; party < parties_.size(); ++party) {
    queue_.Push(jobs_[static_cast<std::size_t>(parties_[party].job)].start,
                {Happening::kEntry, party});
  }
  while (!queue_.empty()) Process();
  for (const Party& party : parties_) {
    if (party.busy_workers > 0) return tl::unexpected(Explain());
    const auto job = static_cast<std::size_t>(party.job);
    const Time end = Time::FromPicoseconds(party.end);
    result_.ends[job] = std::max(result_.ends[job], end);
    const auto participant = static_cast<std::size_t>(party.participant);
    if (participant < result_.rank_ends[job].size()) {
      result_.rank_ends[job][participant] = end;
    }
  }
  return std::move(result_);
}

template <typename List>
Deadlock Simulation<List>::Explain() const {
  Deadlock deadlock;
  const auto describe = [this](int job, int call) {
    const auto& calls = jobs_[static_cast<std::size_t>(job)].calls;
    return fmt::format("call {}, {}", call,
                       calls[static_cast<std::size_t>(call)]->list().Describe());
  };
  for (const Party& party : parties_) {
    if (party.busy_workers == 0) continue;
    const std::uint32_t index = party.calls[party.entered - 1];
    const Call& call = calls_[index];
    const StepList& list = call.traffic->list();
    if (party.participant >= list.ranks()) continue;  // switches wait only because ranks wait
    const int ranks = list.ranks();
    const auto first = std::find_if(
        workers_.begin() + call.first_worker, workers_.end(), [&](const Worker& worker) {
          return &parties_[worker.party] == &party && worker.waits_for != kNone;
        });
    STEPCAST_CHECK(first != workers_.end(), "a worker that has not finished must be waiting");
    const int peer = list.ParticipantOf(first->step.receive_from);
    const std::uint32_t offset = first_call_[static_cast<std::size_t>(party.job)];
    Deadlock::Waiting waiting{.job = party.job,
                              .rank = party.participant,
                              .call = static_cast<int>(index - offset),
                              .peer = peer,
                              .peer_call = static_cast<int>(index - offset)};
    if (peer < ranks) {
      const auto other =
          std::find_if(parties_.begin(), parties_.end(), [&](const Party& candidate) {
            return candidate.job == party.job && candidate.participant == peer;
          });
      waiting.peer_call = other->busy_workers == 0
                              ? -1
                              : static_cast<int>(other->calls[other->entered - 1] - offset);
    }
    deadlock.waiting.push_back(waiting);
  }
  for (std::size_t i = 0; i < std::min<std::size_t>(deadlock.waiting.size(), 10); ++i) {
    const Deadlock::Waiting& waiting = deadlock.waiting[i];
    const auto& calls = jobs_[static_cast<std::size_t>(waiting.job)].calls;
    const int ranks = calls.front()->list().ranks();
    const std::string call = describe(waiting.job, waiting.call);
    const std::string peer = waiting.peer < ranks ? fmt::format("rank {}", waiting.peer)
                                                  : fmt::format("switch {}", waiting.peer - ranks);
    if (waiting.peer_call < 0) {
      deadlock.report += fmt::format("rank {} waits in {}, for {}, which has made all its calls\n",
                                     waiting.rank, call, peer);
    } else if (waiting.peer_call == waiting.call) {
      deadlock.report += fmt::format("rank {} waits in {}, for {}, which waits in the same call\n",
                                     waiting.rank, call, peer);
    } else {
      deadlock.report +=
          fmt::format("rank {} waits in {}, for {}, which waits in {}\n", waiting.rank, call, peer,
                      describe(waiting.job, waiting.peer_call));
    }
  }
  if (deadlock.waiting.size() > 10) {
    deadlock.report += fmt::format("and {} more\n", deadlock.waiting.size() - 10);
  }
  return deadlock;
}

bool AllRings(std::span<const MessageJob> jobs) {
  return std::all_of(jobs.begin(), jobs.end(), [](const MessageJob& job) {
    return std::all_of(job.calls.begin(), job.calls.end(), [](const Traffic* traffic) {
      return dynamic_cast<const Ring*>(&traffic->list()) != nullptr;
    });
  });
}

}  // namespace

tl::expected<MessageRun, Deadlock> RunMessages(const Network& network,
                                               std::span<const MessageJob> jobs) {
  return AllRings(jobs) ? Simulation<Ring>(network, jobs, false).Run()
                        : Simulation<StepList>(network, jobs, false).Run();
}

MessageRun RunMessages(const Traffic& traffic) {
  const MessageJob job{.calls = {&traffic}};
  auto run = RunMessages(traffic.network(), std::span(&job, 1));
  STEPCAST_CHECK(run.has_value(), "ranks with the same order of calls must not wait forever");
  STEPCAST_CHECK(run->ends[0] >= traffic.bandwidth_bound(),
                 "a collective must not be faster than its links");
  return *std::move(run);
}

MessageNetwork::MessageNetwork(const Network& network,
                               std::vector<std::vector<const Traffic*>> jobs) {
  for (std::vector<const Traffic*>& calls : jobs) jobs_.push_back({.calls = std::move(calls)});
  if (AllRings(jobs_)) {
    engine_ = std::make_unique<Simulation<Ring>>(network, jobs_, true);
  } else {
    engine_ = std::make_unique<Simulation<StepList>>(network, jobs_, true);
  }
}

MessageNetwork::~MessageNetwork() = default;

}  // namespace stepcast::network
