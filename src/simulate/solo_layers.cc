#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "src/simulate/records.h"
#include "src/simulate/solo_run.h"

// Repetition within a step. Layers are alike, and where one leaves the state in which it began, but
// for where everybody is, those that follow take as long and leave as much. So are micro-batches.
namespace stepcast::simulate {

// The stream is about to begin a chain, and nothing else happens at this instant. If all is as it
// was a layer before, what comes is known as long as the layers are alike. (So are micro-batches,
// in which there are layers.)
void SoloRun::SkipLayers(std::uint32_t s) {
  const Stream& stream = streams_[s];
  const Item& item = schedule_->items[stream.item];
  if (item.place > 0 || stream.pass == 0) return;
  if (item.begins_phase && options_.until_repetition && PhaseRepeats(s)) return;
  while (nested_ > 0) {
    const BegunLayer& begun = begun_[nested_ - 1];
    if (begun.stream != s) return;
    if (begun.pass == stream.pass && stream.item <= begun.next) break;
    --nested_;
  }
  if (nested_ > 0 && stream.item == begun_[nested_ - 1].next) {
    --nested_;
    std::swap(layer_, begun_[nested_].state);
    TakeState(next_);
    if (const std::uint32_t layers = LayersAhead(); layers > 0) {
      Skip(layers);
      return;
    }
    if (item.other == 0) return;
    std::swap(begun_[nested_].state, next_);
  } else {
    if (item.other == 0 || nested_ == begun_.size()) return;
    if (nested_ > 0 && stream.item + item.other >= begun_[nested_ - 1].next) return;
    TakeState(begun_[nested_].state);
  }
  begun_[nested_].stream = s;
  begun_[nested_].pass = stream.pass;
  begun_[nested_].next = stream.item + item.other;
  ++nested_;
}

// Whether what is waited for is in the layer after what the layer before waits for.
bool SoloRun::WaitFollows(const WaitFor& before, const WaitFor& after) const {
  if (before.count != after.count) return false;
  if (before.count == 0) return true;
  if (std::min(before.slot, after.slot) < schedule_->prologue_records) return false;
  const EventRecord& a = schedule_->records[before.slot];
  const EventRecord& b = schedule_->records[after.slot];
  const std::uint32_t distance = distances_[a.stream].items;
  return a.stream == b.stream && distance > 0 && b.item == a.item + distance;
}

// How many layers like the last one certainly follow, from `layer_` and `next_`.
std::uint32_t SoloRun::LayersAhead() {
  if (layer_.pass < 0 || layer_.pass != next_.pass || layer_.device != next_.device) return 0;
  if (layer_.host_pass != next_.host_pass) return 0;
  const std::uint32_t segments = next_.host_segment - layer_.host_segment;
  const Time time = next_.time - layer_.time;
  const bool held_up = held_up_by_issue_ > layer_.time;
  if (time <= Time()) return 0;
  std::uint32_t first_segment = std::numeric_limits<std::uint32_t>::max();
  distances_.assign(streams_.size(), Distance());
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const State::Position& before = layer_.positions[i];
    const State::Position& after = next_.positions[i];
    if (before.pass != after.pass) return 0;
    Distance& distance = distances_[i];
    distance.items = after.item - before.item;
    if (distance.items == 0) continue;
    const Item& a = schedule_->items[before.item];
    const Item& b = schedule_->items[after.item];
    distance.segments = b.segment - a.segment;
    distance.issued = b.issued - a.issued;
    distance.instructions = b.instruction - a.instruction;
    if (distance.segments == segments && segments > 0) {
      if (distance.issued != Time()) return 0;
      first_segment = std::min(first_segment, SegmentOf(before.item, before.pass));
      continue;
    }
    // It was issued before; what is issued ever earlier stays without effect.
    if (distance.segments != 0) return 0;
    if (distance.issued > time || (distance.issued < time && held_up)) return 0;
  }
  if (segments > 0 ? !HostIsAlike(layer_, next_, first_segment, segments)
                   : layer_.host_waits != next_.host_waits) {
    return 0;
  }
  std::uint32_t layers = std::numeric_limits<std::uint32_t>::max();
  const auto at_most = [&layers](std::uint32_t most) { layers = std::min(layers, most); };
  // Those who stay where they are must not be let go.
  const auto stays = [&](const WaitFor& wait_for) {
    if (wait_for.count == 0 || wait_for.slot < schedule_->prologue_records) return;
    const EventRecord& record = schedule_->records[wait_for.slot];
    const State::Position& position = next_.positions[record.stream];
    const std::uint32_t distance = distances_[record.stream].items;
    if (position.pass == wait_for.count && record.item >= position.item && distance > 0) {
      at_most((record.item - position.item) / distance);
    }
  };
  if (segments == 0) {
    if (host_waits_) stays(host_wait_for_);
  } else {
    at_most(SegmentsAlike(segments));
  }
  for (std::uint32_t i = 0; i < streams_.size() && layers > 0; ++i) {
    const Stream& stream = streams_[i];
    if (distances_[i].items > 0) {
      at_most(ItemsAlike(i));
    } else if (stream.state == StreamState::kAwaitsRecord) {
      stays(stream.wait_for);
    } else if (stream.state == StreamState::kAwaitsHost && segments > 0) {
      const std::size_t segment = SegmentOf(stream.item, stream.pass);
      if (segment < segment_begins_.size()) return 0;
      at_most(static_cast<std::uint32_t>(segment - segment_begins_.size()) / segments);
    }
  }
  return layers;
}

// How many layers follow on the stream, as far as its items go: all of them and the one after.
std::uint32_t SoloRun::ItemsAlike(std::uint32_t s) {
  const Walk& walk = WalkOf(s);
  const State::Position& first = layer_.positions[s];
  const std::uint32_t distance = distances_[s].items;
  std::uint32_t alike = walk.alike;
  // What does not move with the layers must have been reached before them.
  const auto resolved = [&](std::uint32_t i) {
    const Item& item = schedule_->items[i];
    return Resolve(item.target, item.other, item.step_before, first.pass);
  };
  for (std::uint32_t i = walk.waits; i < walk.waits_end; ++i) {
    const std::uint32_t place = walk_waits_[i] - first.item;
    if (Reached(layer_, resolved(first.item + place % distance)) &&
        Reached(next_, resolved(walk_waits_[i] + distance))) {
      continue;
    }
    alike = place;
    break;
  }
  return alike == 0 ? 0 : (alike - 1) / distance;
}

const SoloRun::Walk& SoloRun::WalkOf(std::uint32_t s) {
  if (walked_ != schedule_->id) {
    walked_ = schedule_->id;
    walks_.clear();
    walk_distances_.clear();
    walk_waits_.clear();
  }
  const State::Position& first = layer_.positions[s];
  const auto own = static_cast<std::uint32_t>(walk_distances_.size());
  const auto collectives = [this](std::size_t c) { return next_.finished[c] - layer_.finished[c]; };
  for (const Distance& distance : distances_) walk_distances_.push_back(distance.items);
  for (std::size_t c = 0; c < communicators_.size(); ++c) {
    walk_distances_.push_back(collectives(c));
  }
  for (const Walk& walk : walks_) {
    if (walk.stream != s || walk.first != first.item || walk.first_step != (first.pass == 1) ||
        !std::equal(walk_distances_.begin() + own, walk_distances_.end(),
                    walk_distances_.begin() + walk.distances)) {
      continue;
    }
    walk_distances_.resize(own);
    return walk;
  }
  Walk walk{.stream = s,
            .first = first.item,
            .first_step = first.pass == 1,
            .distances = own,
            .waits = static_cast<std::uint32_t>(walk_waits_.size())};
  const Distance& distance = distances_[s];
  const std::uint32_t end = schedule_->streams[s].end - distance.items;
  for (std::uint32_t i = first.item; i < end;) {
    const Item& a = schedule_->items[i];
    const Item& b = schedule_->items[i + distance.items];
    if (a.kind != b.kind || b.segment != a.segment + distance.segments ||
        b.issued != a.issued + distance.issued ||
        b.instruction != a.instruction + distance.instructions) {
      break;
    }
    std::uint32_t count = 1;
    bool same = true;
    switch (a.kind) {
      case Item::Kind::kOperation:
        same = a.chain == b.chain && a.place == b.place;
        // Copies have records.
        if (a.is_kernel) count = schedule_->chains[a.chain].count - a.place;
        break;
      case Item::Kind::kCollective:
        same = a.target == b.target &&
               b.other == a.other + collectives(rank_.program->collectives[a.target].communicator);
        break;
      case Item::Kind::kRecord:
        break;
      case Item::Kind::kWait: {
        const auto resolved = [&](const Item& item) {
          return Resolve(item.target, item.other, item.step_before, first.pass);
        };
        if (!WaitFollows(resolved(a), resolved(b))) walk_waits_.push_back(i);
        break;
      }
    }
    if (!same) break;
    i += count;
    walk.alike = i - first.item;
  }
  walk.waits_end = static_cast<std::uint32_t>(walk_waits_.size());
  return walks_.emplace_back(walk);
}

// Whether the host, from where it is in that state, may come to that wait before it is over. It is
// followed late, so that a record may have been reached by now and still have been waited for.
bool SoloRun::HoldsUpHost(const State& state, const WaitFor& wait_for) const {
  return wait_for.count > 0 &&
         (!Reached(state, wait_for) || reached_at_[wait_for.slot] > state.host_clock);
}

// The same for the host.
std::uint32_t SoloRun::SegmentsAlike(std::uint32_t distance) const {
  const std::uint32_t waits = host_waits_ ? 1 : 0;  // for what the segment before ends with
  if (layer_.host_segment < schedule_->prologue_segments + waits) return 0;
  const std::uint32_t first = layer_.host_segment - waits;
  const auto end = static_cast<std::uint32_t>(schedule_->segments.size()) - distance;
  std::uint32_t alike = 0;
  for (std::uint32_t i = first; i < end; ++i, ++alike) {
    const Segment& a = schedule_->segments[i];
    const Segment& b = schedule_->segments[i + distance];
    if (a.length != b.length || (a.wait == kNone) != (b.wait == kNone)) break;
    if (a.wait == kNone) break;
    const auto resolved = [&](const Segment& segment) {
      return Resolve(segment.target, segment.other, segment.step_before, layer_.host_pass);
    };
    if (WaitFollows(resolved(a), resolved(b))) continue;
    // Waits that keep the host from nothing do not count, wherever what they wait for stands.
    const Segment& of_first = schedule_->segments[first + (i - first) % distance];
    if (HoldsUpHost(layer_, resolved(of_first)) || HoldsUpHost(next_, resolved(b))) break;
  }
  return alike < waits ? 0 : (alike - waits) / distance;
}

void SoloRun::Skip(std::uint32_t layers) {
  const Time time = next_.time - layer_.time;
  const Time all = time * layers;
  // What would have been recorded: of the host, ...
  const std::uint32_t segments = next_.host_segment - layer_.host_segment;
  const std::size_t begun = segment_begins_.size();
  const Time host_clock = host_clock_;
  for (std::uint32_t i = 0; i < segments * layers; ++i) {
    host_clock_ = segment_begins_[begun + i - segments] + time;
    BeginSegment();
    ++host_segment_;
  }
  if (segments > 0) {
    host_clock_ = host_clock + all;
    if (host_waits_) {
      const Segment& segment = schedule_->segments[host_segment_ - 1];
      host_wait_for_ = Resolve(segment.target, segment.other, segment.step_before, host_pass_);
      host_waits_ = host_wait_for_.count > 0;
    }
  }
  // ... and operations.
  RecordLayers(layers);
  // Everybody is where he would be then.
  now_ += all;
  if (held_up_by_issue_ > layer_.time) held_up_by_issue_ += all;
  first_waiting_.clear();
  for (std::uint32_t s = 0; s < streams_.size(); ++s) {
    Stream& stream = streams_[s];
    const Distance& distance = distances_[s];
    stream.ready += all;
    stream.start += all;
    if (distance.items == 0) continue;
    stream.item += layers * distance.items;
    stream.issued += (distance.segments > 0 ? time : distance.issued) * layers;
    if (stream.state == StreamState::kAtCollective) {
      const std::uint32_t c = stream.wait_for.slot;
      stream.wait_for.count += layers * (next_.finished[c] - layer_.finished[c]);
    } else if (stream.state == StreamState::kAwaitsRecord) {
      const Item& item = schedule_->items[stream.item];
      const std::uint32_t before = stream.wait_for.slot;
      stream.wait_for = Resolve(item.target, item.other, item.step_before, stream.pass);
      if (waiting_[before] == s) {
        waiting_[before] = kNone;
        first_waiting_.push_back(s);
      }
    }
  }
  KnowWhenReached(layers);
  for (const std::uint32_t s : first_waiting_) {
    // Those who have stayed there came before them.
    std::uint32_t& waiting = waiting_[streams_[s].wait_for.slot];
    std::uint32_t last = s;
    while (streams_[last].next_waiting != kNone) last = streams_[last].next_waiting;
    streams_[last].next_waiting = std::exchange(waiting, s);
  }
  for (std::size_t c = 0; c < communicators_.size(); ++c) {
    communicators_[c].current += layers * (next_.finished[c] - layer_.finished[c]);
  }
  for (UnderWay& work : under_way_) {
    if (work.activity == Activity::kNone) continue;
    work.next += all;
    work.since += all;
  }
}

// The operations of layers like the last one.
void SoloRun::RecordLayers(std::uint32_t layers) {
  const Time time = next_.time - layer_.time;
  const auto distance_of = [this](Index instruction) -> const Distance& {
    return distances_[rank_.program->step[instruction].stream];
  };
  if (options_.records == Records::kEnds) {
    for (std::size_t i = layer_.operations; i < next_.operations; ++i) {
      EndRecord record = ends_[i];
      const Index further = distance_of(record.instruction).instructions;
      for (std::uint32_t layer = 0; layer < layers; ++layer) {
        record.instruction += further;
        record.end += time;
        ends_.push_back(record);
      }
    }
    return;
  }
  for (std::uint32_t layer = 1; layer <= layers; ++layer) {
    for (std::size_t i = layer_.operations; i < next_.operations; ++i) {
      program::OperationRecord record = timeline_.operations[i];
      const Distance& distance = distance_of(record.instruction);
      record.instruction += layer * distance.instructions;
      record.issued += (distance.segments > 0 ? time : distance.issued) * layer;
      record.ready += time * layer;
      record.start += time * layer;
      record.end += time * layer;
      AppendInOrder(record, timeline_.operations);
    }
  }
}

// When those records were reached that the host will wait for.
void SoloRun::KnowWhenReached(std::uint32_t layers) {
  if (host_pass_ == 0 || host_pass_ == passes_) return;
  const Time time = next_.time - layer_.time;
  const auto end = static_cast<std::uint32_t>(schedule_->segments.size());
  const auto know = [&](const Segment& segment, std::uint32_t pass) {
    if (segment.wait == kNone) return;
    const WaitFor wait_for = Resolve(segment.target, segment.other, segment.step_before, pass);
    if (wait_for.count == 0 || wait_for.slot < schedule_->prologue_records) return;
    const EventRecord& record = schedule_->records[wait_for.slot];
    const State::Position& next = next_.positions[record.stream];
    const std::uint32_t distance = distances_[record.stream].items;
    if (wait_for.count != next.pass || record.item < next.item ||
        record.item >= next.item + layers * distance) {
      return;
    }
    const std::uint32_t layer = 1 + (record.item - next.item) / distance;
    const std::uint32_t slot = schedule_->items[record.item - layer * distance].target;
    reached_at_[wait_for.slot] = reached_at_[slot] + time * layer;
  };
  for (std::uint32_t i = host_segment_ - (host_waits_ ? 1 : 0); i < end; ++i) {
    know(schedule_->segments[i], host_pass_);
  }
  // In the next step it may wait for what this one has left.
  for (std::uint32_t i = schedule_->prologue_segments; i < end; ++i) {
    const Segment& segment = schedule_->segments[i];
    if (segment.step_before) know(segment, host_pass_ + 1);
  }
}

}  // namespace stepcast::simulate
