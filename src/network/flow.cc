#include "src/network/flow.h"

#include <algorithm>
#include <cstdint>

#include "src/base/check.h"
#include "src/engine/event_queue.h"
#include "src/network/analytic.h"

namespace stepcast::network {
namespace {

using engine::SharedResources;

// An event: a job's links become busy, or its work is done.
struct Happening {
  std::uint32_t job : 31;
  std::uint32_t ends : 1;
};

}  // namespace

FlowDemand DemandOf(const Traffic& traffic) {
  const Time total = PriceAnalytically(traffic).total;
  FlowDemand demand;
  demand.work = std::min(total, traffic.transfer());
  demand.latency = total - demand.work;
  if (demand.work == Time()) return demand;
  for (const Traffic::Load& load : traffic.loads()) {
    const Bandwidth bandwidth = traffic.network().link(load.link).bandwidth;
    const double busy = load.bytes / static_cast<double>(bandwidth.bytes_per_second());
    const double share = std::min(1.0, busy / demand.work.seconds());
    demand.uses.push_back({.resource = static_cast<std::uint32_t>(load.link),
                           .share = SharedResources::Share(share)});
  }
  return demand;
}

std::vector<Time> RunFlows(const Network& network, std::span<const FlowJob> jobs) {
  std::vector<FlowDemand> demands;
  demands.reserve(jobs.size());
  engine::EventQueue<Happening> queue;
  for (std::uint32_t job = 0; job < jobs.size(); ++job) {
    STEPCAST_CHECK(&jobs[job].traffic->network() == &network, "jobs share one network");
    demands.push_back(DemandOf(*jobs[job].traffic));
    queue.Push(jobs[job].start + demands.back().latency, {job, 0});
  }
  SharedResources links(static_cast<std::uint32_t>(network.links()),
                        static_cast<std::uint32_t>(jobs.size()));
  std::vector<Time> ends(jobs.size());
  std::vector<bool> over(jobs.size());
  while (!queue.empty()) {
    const auto [time, happening] = queue.Pop();
    const std::uint32_t job = happening.job;
    if (happening.ends == 0) {
      links.Start(job, time, demands[job].work, demands[job].uses);
    } else if (!over[job] && links.end(job) == time) {
      // An end that has moved since is another event.
      over[job] = true;
      ends[job] = time;
      links.Finish(job);
    }
    if (!links.unsettled() || (!queue.empty() && queue.Top().time == time)) continue;
    links.Settle(time);
    for (const SharedResources::Activity moved : links.moved()) {
      queue.Push(links.end(moved), {moved, 1});
    }
  }
  for (std::size_t job = 0; job < jobs.size(); ++job) {
    STEPCAST_CHECK(ends[job] - jobs[job].start >= jobs[job].traffic->bandwidth_bound(),
                   "no collective is faster than its links");
  }
  return ends;
}

}  // namespace stepcast::network
