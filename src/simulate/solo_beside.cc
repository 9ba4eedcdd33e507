#include <algorithm>
#include <cstdint>
#include <utility>

#include "src/simulate/solo_run.h"

// Mostly one stream computes and another one communicates, and for a while neither waits for the
// other: communication lags behind, or is ahead. Two things are under way then, and what happens to
// one of them concerns the other by its rate alone, so they are followed here, from the end of one
// to that of the other. Whatever concerns anybody else is left to the events.
namespace stepcast::simulate {

using engine::SharedResources;

// The communicator whose collective is the only thing under way that slows others down, or will.
SoloRun::Runner SoloRun::OnlyCollective() const {
  const auto first = static_cast<Runner>(streams_.size());
  if (sharers_.size() == 1) return sharers_.front() >= first ? sharers_.front() : kNone;
  if (!sharers_.empty()) return kNone;
  Runner only = kNone;
  for (Runner runner = first; runner < under_way_.size(); ++runner) {
    if (under_way_[runner].activity != Activity::kLatency) continue;
    if (only == kNone || under_way_[runner].next < under_way_[only].next) only = runner;
  }
  return only;
}

// When something happens that is not this runner's.
Time SoloRun::NextOfOthers(Runner runner) const {
  Time next = Time::Max();
  for (Runner other = 0; other < under_way_.size(); ++other) {
    if (other != runner) next = std::min(next, under_way_[other].next);
  }
  return next;
}

// The stream is about to begin an operation, and the runner is OnlyCollective. True if there is no
// more to look at: the next operation is under way, and goes on by events.
bool SoloRun::RunBeside(std::uint32_t s, Runner runner) {
  Stream& stream = streams_[s];
  UnderWay& other = under_way_[runner];
  const StreamRange& range = schedule_->streams[s];
  const std::uint32_t last = (stream.pass == 0 ? range.step : range.end) - 1;
  Time until = NextOfOthers(runner);
  if (other.activity == Activity::kShares) {
    other.left = LeftOf(other);
    other.since = now_;
  }
  bool row_open = false;
  bool known = true;  // SkipLayers has looked at the next item
  while (stream.item < last) {
    const std::uint32_t segment = SegmentOf(stream.item, stream.pass);
    if (!KnowsSegment(segment)) break;
    const Time begin = segment_begins_[segment];
    const Item* item = &schedule_->items[stream.item];
    if (item->kind != Item::Kind::kOperation) {
      const Time issued = begin + item->issued;
      if (!IsPassed(*item, stream.pass, issued, now_)) break;
      Pass(stream, *item, issued);
      row_open = false;
      known = false;
      continue;
    }
    if (skips_layers_ && !known) {
      const std::uint32_t before = stream.item;
      SkipLayers(s);
      if (repetition_) return true;
      known = true;
      if (stream.item != before) {
        until = NextOfOthers(runner);
        continue;
      }
    }
    if (begin + item->issued > now_) break;
    std::uint32_t chunk = schedule_->chains[item->chain].count - item->place;
    if (stream.item + chunk > last) break;
    chunk = IssuedOf(*item, chunk, begin, now_);

    // So many of them end before the collective does, or begins to slow them down.
    const bool shares = other.activity == Activity::kShares;
    const Time limit = shares ? until : std::min(until, other.next);
    Offsets offsets;
    const auto undisturbed = [&](std::uint32_t operations) {
      const Time* const ends = offsets.ends + item->place;
      if (now_ + (ends[operations] - ends[0]) >= limit) return false;
      const SharedWork* const done = offsets.done + item->place;
      return !shares || done[operations] - done[0] < other.left;
    };
    const std::uint32_t most = Most(*item, chunk, 1, offsets, undisturbed);
    if (most > 0) {
      if (shares) {
        const SharedWork* const done = offsets.done + item->place;
        other.left -= done[most] - done[0];
      }
      CompleteChunk(s, most, now_, offsets, row_open);
      other.since = now_;
      known = false;
      if (most == chunk) continue;
      item = &schedule_->items[stream.item];
    }
    stream.issued = begin + item->issued;
    stream.ready = now_;
    stream.start = now_;
    Begun(stream.pass, now_);
    if (!EndBeside(s, runner, until)) return true;
    row_open = false;
    known = false;
  }
  if (other.activity == Activity::kShares) {
    other.rate = companies_.RateOf(company_, other.profile);
    other.next = now_ + SharedResources::TimeFor(other.left, other.rate);
  }
  return false;
}

// Follows the stream's operation, which begins now, to its end. False: not so far, for something
// else comes before; it is under way then, as if it had been started.
bool SoloRun::EndBeside(std::uint32_t s, Runner runner, Time until) {
  UnderWay& other = under_way_[runner];
  const Cost& cost = schedule_->costs[schedule_->items[streams_[s].item].target];
  const auto communicator = static_cast<std::uint32_t>(runner - streams_.size());
  bool runs = cost.latency == Time();  // and shares
  const Time begins = now_ + cost.latency;
  SharedWork left = SharedResources::Done(cost.work, SharedResources::kFullRate);
  for (;;) {
    const bool other_shares = other.activity == Activity::kShares;
    std::uint64_t rate = 0, other_rate = 0;
    if (runs) {
      const Companies::Disturbance& beside = companies_.Beside(company_, cost.profile);
      rate = beside.rate;
      other_rate = beside.others[0];
    } else if (other_shares) {
      other_rate = companies_.RateOf(company_, other.profile);
    }
    const Time end = runs ? now_ + SharedResources::TimeFor(left, rate) : begins;
    bool other_is_first = false;
    Time next = end;
    if (!other_shares) {
      other_is_first = other.next <= end;
      next = std::min(next, other.next);
    } else if (SharedResources::Done(end - now_, other_rate) >= other.left) {
      other_is_first = true;
      next = now_ + SharedResources::TimeFor(other.left, other_rate);
    }
    if (next >= until ||
        (other_is_first && (next == end || (other_shares && !IsFollowed(communicator, next))))) {
      // The events go on from here, with both as they are now.
      UnderWay& own = under_way_[s];
      own.profile = cost.profile;
      own.work = cost.work;
      if (cost.use_count == 0) {
        own.activity = Activity::kFixed;
        own.next = runs ? end : begins + cost.work;
      } else if (!runs) {
        own.activity = Activity::kLatency;
        own.next = begins;
      } else {
        own.activity = Activity::kShares;
        own.settled = true;
        own.rate = rate;
        own.left = left;
        own.since = now_;
        own.next = end;
        company_ = companies_.With(company_, own.profile);
        sharers_.insert(sharers_.begin(), s);
      }
      if (other_shares) {
        other.rate = other_rate;
        other.next = now_ + SharedResources::TimeFor(other.left, other_rate);
      }
      streams_[s].state = StreamState::kUnderWay;
      return false;
    }
    const Time passed = next - now_;
    now_ = next;
    if (!other_is_first) {
      if (other_shares) other.left -= SharedResources::Done(passed, other_rate);
      other.since = now_;
      if (runs) {
        Complete(s);
        return true;
      }
      runs = true;
      continue;
    }
    if (runs) left -= SharedResources::Done(passed, rate);
    if (other_shares) {
      FollowWithNext(communicator);
    } else {
      ShareAlone(runner);
    }
  }
}

// The latency of the only collective is over.
void SoloRun::ShareAlone(Runner runner) {
  UnderWay& work = under_way_[runner];
  work.activity = Activity::kShares;
  work.settled = true;
  work.left = SharedResources::Done(work.work, SharedResources::kFullRate);
  work.since = now_;
  sharers_.assign(1, runner);
  company_ = companies_.With(Companies::kNobody, work.profile);
}

// Whether a stream that comes to a wait or a record passes it, and nobody takes note.
bool SoloRun::IsPassed(const Item& item, std::uint32_t pass, Time issued, Time time) const {
  if (item.kind == Item::Kind::kWait) {
    return Reached(Resolve(item.target, item.other, item.step_before, pass));
  }
  return item.kind == Item::Kind::kRecord && issued <= time && waiting_[item.target] == kNone &&
         !(host_waits_ && host_wait_for_.slot == item.target);
}

void SoloRun::Pass(Stream& stream, const Item& item, Time issued) {
  if (issued > now_) held_up_by_issue_ = std::max(held_up_by_issue_, issued);
  if (item.kind == Item::Kind::kRecord) reached_at_[item.target] = now_;
  ++stream.item;
}

// Whether the collective that ends then is followed at once by another one of its communicator, and
// nothing comes in between that concerns anybody else.
bool SoloRun::IsFollowed(std::uint32_t c, Time end) {
  const Communicator& communicator = communicators_[c];
  if (communicator.waiting != kNone) return false;
  const Stream& stream = streams_[communicator.running];
  const StreamRange& range = schedule_->streams[communicator.running];
  const std::uint32_t last = stream.pass == 0 ? range.step : range.end;
  for (std::uint32_t i = stream.item + 1; i < last; ++i) {
    const std::uint32_t segment = SegmentOf(i, stream.pass);
    if (!KnowsSegment(segment)) return false;
    const Item& item = schedule_->items[i];
    const Time issued = segment_begins_[segment] + item.issued;
    if (item.kind == Item::Kind::kCollective) {
      return issued <= end && schedule_->collective_costs[item.target].use_count > 0 &&
             rank_.program->collectives[item.target].communicator == c &&
             NumberOf(item, stream.pass) == communicator.current + 1;
    }
    if (!IsPassed(item, stream.pass, issued, end)) return false;
  }
  return false;
}

void SoloRun::FollowWithNext(std::uint32_t c) {
  Communicator& communicator = communicators_[c];
  const std::uint32_t s = communicator.running;
  Stream& stream = streams_[s];
  if (Recorded(stream.pass, schedule_->items[stream.item])) AddRecord(s, stream.item, now_);
  ++stream.item;
  for (;;) {
    const Item& item = schedule_->items[stream.item];
    stream.issued = segment_begins_[SegmentOf(stream.item, stream.pass)] + item.issued;
    if (item.kind == Item::Kind::kCollective) break;
    Pass(stream, item, stream.issued);
  }
  stream.ready = now_;
  stream.start = now_;
  stream.wait_for = {c, ++communicator.current};
  Begun(stream.pass, now_);
  const Cost& cost = schedule_->collective_costs[schedule_->items[stream.item].target];
  const auto runner = static_cast<Runner>(streams_.size() + c);
  UnderWay& work = under_way_[runner];
  work.profile = cost.profile;
  work.work = cost.work;
  if (cost.latency == Time()) {
    ShareAlone(runner);
    return;
  }
  work.activity = Activity::kLatency;
  work.next = now_ + cost.latency;
  sharers_.clear();
  company_ = Companies::kNobody;
}

}  // namespace stepcast::simulate
