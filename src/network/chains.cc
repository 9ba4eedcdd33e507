#include "src/network/chains.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "src/base/check.h"
#include "src/base/rates.h"

namespace stepcast::network {
namespace {

using collective::kNobody;
using collective::Step;
using collective::StepList;

constexpr std::uint32_t kNone = 0xffffffff;

// A step that was carried out, in an order in which nothing comes before what it waits for.
struct Done {
  std::uint32_t worker = 0;
  std::uint32_t received = kNone;     // the step that sent its message
  std::uint32_t connection = kNone;   // over which it sends
  std::uint32_t stage_after = kNone;  // the step of another stage that sent before
  Time leaves{};                      // when its message starts to leave
  Time lasts{};                       // until it has left
};

// A connection's messages: sent ones wait in `sent` until they are received.
struct Line {
  std::vector<std::uint32_t> sent;  // steps
  std::size_t received = 0;
  Time free{};
  bool awaited = false;
};

}  // namespace

Chains::Chains(const Traffic& traffic, int loops, bool with_bytes) {
  const StepList& list = traffic.list();
  const std::span<const Connection> connections = traffic.connections();
  const auto workers = static_cast<std::size_t>(list.workers());
  ends_.assign(static_cast<std::size_t>(loops), Time());
  through_.assign(connections.size(), Time());
  busy_.assign(connections.size(), Time());

  std::vector<Done> done;
  std::vector<Line> lines(connections.size());
  std::vector<std::int64_t> next(workers);
  std::vector<Time> now(workers);  // when the worker's last step was carried out
  std::vector<std::uint32_t> last_send(workers, kNone);  // step
  std::vector<int> ready;
  for (int worker = 0; worker < list.workers(); ++worker) ready.push_back(worker);

  while (!ready.empty()) {
    const int worker = ready.back();
    ready.pop_back();
    const auto at = static_cast<std::size_t>(worker);
    const std::int64_t per_loop = list.StepsPerLoop(worker);
    for (; next[at] < per_loop * loops; ++next[at]) {
      const Step step = list.At(worker, next[at]);
      Done record{.worker = static_cast<std::uint32_t>(worker)};
      Time& end = ends_[static_cast<std::size_t>(next[at] / per_loop)];
      if (step.receive_from != kNobody) {
        const std::uint32_t from = traffic.Find(step.receive_from, worker);
        Line& line = lines[from];
        if (line.received == line.sent.size()) {
          line.awaited = true;
          break;
        }
        record.received = line.sent[line.received++];
        const Done& sender = done[record.received];
        now[at] = std::max(now[at], sender.leaves + sender.lasts + connections[from].latency);
      }
      if (step.send_to != kNobody) {
        record.connection = traffic.Find(worker, step.send_to);
        Line& line = lines[record.connection];
        now[at] = std::max(now[at], line.free);
        if (last_send[at] != kNone) {
          const Done& last = done[last_send[at]];
          if (connections[last.connection].stage != connections[record.connection].stage) {
            record.stage_after = last_send[at];
            now[at] = std::max(now[at], last.leaves + last.lasts);
          }
        }
        last_send[at] = static_cast<std::uint32_t>(done.size());
        record.leaves = now[at];
        if (with_bytes) {
          record.lasts = Bytes(step.bytes) / connections[record.connection].rate;
        }
        line.free = record.leaves + record.lasts;
        if (next[at] < per_loop) busy_[record.connection] += record.lasts;
        line.sent.push_back(static_cast<std::uint32_t>(done.size()));
        if (line.awaited) {
          line.awaited = false;
          ready.push_back(step.send_to);
        }
      }
      end = std::max(end, now[at]);
      done.push_back(record);
    }
  }
  for (int worker = 0; worker < list.workers(); ++worker) {
    STEPCAST_CHECK(next[static_cast<std::size_t>(worker)] == list.StepsPerLoop(worker) * loops,
                   "no worker waits for ever");
  }
  for (std::size_t loop = 1; loop < ends_.size(); ++loop) {
    ends_[loop] = std::max(ends_[loop], ends_[loop - 1]);
  }

  // Backwards: how much follows a step, a connection's next message, a message's arrival, and its
  // leaving in another stage.
  std::vector<Time> after_step(workers);
  std::vector<Time> after_leaving(connections.size());
  std::vector<Time> after_arrival(done.size());
  std::vector<Time> after_stage(done.size());
  for (std::size_t i = done.size(); i-- > 0;) {
    const Done& step = done[i];
    Time& after = after_step[step.worker];
    if (step.connection != kNone) {
      Time& next_message = after_leaving[step.connection];
      const Time arrives = connections[step.connection].latency + after_arrival[i];
      after = std::max(after, step.lasts + std::max({next_message, arrives, after_stage[i]}));
      next_message = after;
      through_[step.connection] = std::max(through_[step.connection], step.leaves + after);
    }
    if (step.stage_after != kNone) after_stage[step.stage_after] = after;
    if (step.received != kNone) after_arrival[step.received] = after;
  }
}

}  // namespace stepcast::network
