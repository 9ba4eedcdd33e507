#include "src/forecast/memory_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "src/engine/segment_sizes.h"

namespace stepcast::forecast {
namespace {

using program::Index;
using program::Instruction;
using program::kNone;
using program::Opcode;
using program::Program;

// Beyond so many sizes that change a replay is faster.
constexpr std::size_t kMostChanging = 64;

// Shorter ones are recorded as quickly.
constexpr std::size_t kShortestVisit = 16;

bool IsVisit(const engine::PoolRequests& requests, const engine::PoolRequests::Part& part) {
  const std::size_t length = part.last - part.first, half = length / 2;
  if (length < 2 * kShortestVisit || length % 2 != 0) return false;
  // Nearly all others differ from one in the middle.
  if (requests.requests[part.first + half - 1].free || !requests.requests[part.first + half].free) {
    return false;
  }
  std::vector<bool> allocated(requests.blocks);
  for (std::size_t i = 0; i < length; ++i) {
    const engine::PoolRequests::Request& request = requests.requests[part.first + i];
    if (request.free != (i >= half) || allocated[request.block] != request.free) return false;
    allocated[request.block] = !request.free;
  }
  return true;
}

void FindKindsOfParts(engine::PoolRequests& requests) {
  const auto at = [&](std::size_t i) {
    return requests.requests.begin() + static_cast<std::ptrdiff_t>(i);
  };
  for (engine::PoolRequests::Part& part : requests.parts) {
    part.kind = 0;
    while (!std::equal(at(requests.parts[part.kind].first), at(requests.parts[part.kind].last),
                       at(part.first), at(part.last))) {
      ++part.kind;
    }
    part.visit = IsVisit(requests, part);
  }
}

}  // namespace

MemoryPlan::MemoryPlan(const Program& program, PoolCourses& courses,
                       std::span<const std::uint64_t> likeness)
    : courses_(&courses), streams_(program.streams.size()), kinds_stay_(!likeness.empty()) {
  std::vector<std::uint32_t> number(program.buffers.size(), kNone);
  used_.reserve(program.buffers.size());
  const auto change_of = [&](const Instruction& instruction) {
    std::uint32_t& buffer = number[instruction.operand];
    if (buffer == kNone) {
      buffer = static_cast<std::uint32_t>(used_.size());
      used_.push_back(instruction.operand);
    }
    const bool release = instruction.opcode == Opcode::kRelease;
    return Change{.buffer = buffer,
                  .stream = release ? std::uint16_t{0} : instruction.stream,
                  .release = release};
  };
  const auto concerns_memory = [](const Instruction& instruction) {
    return instruction.opcode == Opcode::kAllocate || instruction.opcode == Opcode::kRelease;
  };
  for (const Instruction& instruction : program.prologue) {
    if (concerns_memory(instruction)) prologue_.push_back(change_of(instruction));
  }
  for (Index i = 0; i < program.step.size(); ++i) {
    if (concerns_memory(program.step[i])) instructions_.push_back(i);
  }
  step_.reserve(instructions_.size());
  std::uint16_t micro_batch = 0;
  // What the update makes for itself comes in parts of its own.
  std::vector<std::uint8_t> made(program.buffers.size());
  bool own = false;
  for (const Index i : instructions_) {
    const Instruction& instruction = program.step[i];
    const bool was_own = own;
    if (instruction.opcode == Opcode::kAllocate) {
      own = instruction.phase == program::Phase::kOptimizer;
      made[instruction.operand] = own ? 1 : 0;
    } else {
      own = made[instruction.operand] != 0;
    }
    if (parts_.empty() || instruction.micro_batch != micro_batch || own != was_own) {
      if (!parts_.empty()) parts_.back().last = step_.size();
      parts_.push_back({.first = step_.size()});
      micro_batch = instruction.micro_batch;
    }
    step_.push_back(change_of(instruction));
  }
  if (!parts_.empty()) parts_.back().last = step_.size();
  regular_ = IsRegular();
  if (regular_) FindKinds(program, likeness);
}

// What the prologue allocates stays, and a step releases what it has allocated.
bool MemoryPlan::IsRegular() const {
  enum class State : std::uint8_t { kFree, kHeld, kStays };
  std::vector<State> states(used_.size());
  for (const Change& change : prologue_) {
    State& state = states[change.buffer];
    if (change.release || state != State::kFree) return false;
    state = State::kStays;
  }
  for (const Change& change : step_) {
    State& state = states[change.buffer];
    if (state != (change.release ? State::kHeld : State::kFree)) return false;
    state = change.release ? State::kFree : State::kHeld;
  }
  return std::find(states.begin(), states.end(), State::kHeld) == states.end();
}

void MemoryPlan::FindKinds(const Program& program, std::span<const std::uint64_t> likeness) {
  std::vector<std::uint32_t> known(256, kNone);  // kinds, by a hash; open addressing
  std::unordered_map<std::int64_t, std::uint32_t> blocks;
  kind_of_.reserve(used_.size());
  const auto likeness_of = [&](std::uint32_t used) {
    return kinds_stay_ ? likeness[used_[used]] : 0;
  };
  const auto place_of = [&](std::int64_t size, std::uint64_t like) {
    std::uint64_t hash = (static_cast<std::uint64_t>(size) ^ (like << 20)) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
    return hash % known.size();
  };
  const auto next = [&](std::size_t place) { return place + 1 == known.size() ? 0 : place + 1; };
  for (std::uint32_t i = 0; i < used_.size(); ++i) {
    const program::Buffer& buffer = program.buffers[used_[i]];
    const std::int64_t size = buffer.size.count(), padding = buffer.padding.count();
    const std::uint64_t like = likeness_of(i);
    std::size_t place = place_of(size, like);
    for (; known[place] != kNone; place = next(place)) {
      const Kind& kind = kinds_[known[place]];
      if (kind.size == size && kind.padding == padding && kind.category == buffer.category &&
          likeness_of(kind.first) == like) {
        break;
      }
    }
    if (known[place] != kNone) {
      kind_of_.push_back(known[place]);
      continue;
    }
    const auto kind = static_cast<std::uint32_t>(kinds_.size());
    known[place] = kind;
    kind_of_.push_back(kind);
    const std::int64_t block = engine::BlockSize(size);
    const auto [of_size, is_new] = blocks.try_emplace(block, block_sizes_.size());
    if (is_new) {
      block_sizes_.push_back({.first = kind, .size = block, .small = engine::IsSmall(block)});
    }
    kinds_.push_back({.first = i,
                      .category = buffer.category,
                      .size = size,
                      .padding = padding,
                      .block = of_size->second});
    if (2 * kinds_.size() <= known.size()) continue;
    known.assign(4 * known.size(), kNone);
    for (std::uint32_t k = 0; k < kinds_.size(); ++k) {
      std::size_t to = place_of(kinds_[k].size, likeness_of(kinds_[k].first));
      while (known[to] != kNone) to = next(to);
      known[to] = k;
    }
  }
}

void MemoryPlan::Learn(const Program& program) {
  for (Kind& kind : kinds_) {
    const program::Buffer& buffer = program.buffers[used_[kind.first]];
    if (kind.size != buffer.size.count() || kind.padding != buffer.padding.count() ||
        kind.category != buffer.category) {
      if (!kind.changes || kind.category != buffer.category) moments_known_ = false;
      kind.changes = true;
      kind.size = buffer.size.count();
      kind.padding = buffer.padding.count();
      kind.category = buffer.category;
    }
  }
  for (std::size_t i = 0; i < used_.size() && !kinds_stay_; ++i) {
    const program::Buffer& buffer = program.buffers[used_[i]];
    const Kind& kind = kinds_[kind_of_[i]];
    if (kind.size == buffer.size.count() && kind.padding == buffer.padding.count() &&
        kind.category == buffer.category) {
      continue;
    }
    SplitKinds(program);
    return;
  }
}

bool MemoryPlan::TooManyChange() const {
  return std::count_if(kinds_.begin(), kinds_.end(), [](const Kind& kind) {
           return kind.changes;
         }) > static_cast<std::ptrdiff_t>(kMostChanging);
}

void MemoryPlan::SplitKinds(const Program& program) {
  moments_known_ = false;
  std::map<std::tuple<std::uint32_t, Bytes, Bytes, program::Category>, std::uint32_t> parts;
  for (std::uint32_t i = 0; i < used_.size(); ++i) {
    const program::Buffer& buffer = program.buffers[used_[i]];
    const Kind& kind = kinds_[kind_of_[i]];
    if (kind.size == buffer.size.count() && kind.padding == buffer.padding.count() &&
        kind.category == buffer.category) {
      continue;
    }
    const auto [found, is_new] = parts.try_emplace(
        {kind_of_[i], buffer.size, buffer.padding, buffer.category}, kinds_.size());
    kind_of_[i] = found->second;
    if (!is_new) continue;
    kinds_.push_back({.first = i,
                      .category = buffer.category,
                      .size = buffer.size.count(),
                      .padding = buffer.padding.count(),
                      .changes = true,
                      .block = kind.block});
  }
}

// False: there are too many that change.
bool MemoryPlan::LearnBlockSizes() {
  for (BlockSize& block : block_sizes_) {
    const std::int64_t size = engine::BlockSize(kinds_[block.first].size);
    if (size == block.size) continue;
    block.size = size;
    if (!block.changes) pools_known_ = false;
    block.changes = true;
    if (block.small != engine::IsSmall(size)) pools_known_ = false;
    block.small = engine::IsSmall(size);
  }
  std::map<std::pair<std::uint32_t, std::int64_t>, std::uint32_t> parts;
  for (std::uint32_t k = 0; k < kinds_.size(); ++k) {
    const std::int64_t size = engine::BlockSize(kinds_[k].size);
    if (size == block_sizes_[kinds_[k].block].size) continue;
    const auto [found, is_new] = parts.try_emplace({kinds_[k].block, size}, block_sizes_.size());
    kinds_[k].block = found->second;
    pools_known_ = false;
    if (!is_new) continue;
    block_sizes_.push_back(
        {.first = k, .size = size, .changes = true, .small = engine::IsSmall(size)});
  }
  return std::count_if(block_sizes_.begin(), block_sizes_.end(), [](const BlockSize& size) {
           return size.changes;
         }) <= static_cast<std::ptrdiff_t>(kMostChanging);
}

void MemoryPlan::FindMoments() {
  moments_known_ = true;
  moments_.clear();
  changing_.clear();
  std::vector<std::uint32_t> number(kinds_.size(), kNone);
  for (std::uint32_t k = 0; k < kinds_.size(); ++k) {
    if (!kinds_[k].changes) continue;
    number[k] = static_cast<std::uint32_t>(changing_.size());
    changing_.push_back(k);
  }
  std::map<std::vector<std::int32_t>, std::size_t> known;
  Moment now;
  now.changing.resize(changing_.size());
  std::size_t moment = moments_.size();
  bool same_counts = false;  // as when `moment` was found
  const auto note = [&](std::size_t time) {
    if (!same_counts) {
      moment = known.try_emplace(now.changing, moments_.size()).first->second;
      same_counts = true;
    }
    if (moment < moments_.size() && moments_[moment].bytes >= now.bytes) return;
    if (moment == moments_.size()) moments_.emplace_back();
    moments_[moment] = now;
    moments_[moment].time = time;
  };
  // Only before a release, or at the end, can it be most.
  bool risen = false;
  std::size_t time = 0;
  const auto play = [&](const std::vector<Change>& changes) {
    for (const Change& change : changes) {
      const std::uint32_t k = kind_of_[change.buffer];
      const Kind& kind = kinds_[k];
      if (change.release && risen) note(time);
      risen = !change.release;
      ++time;
      const std::int32_t sign = change.release ? -1 : 1;
      if (number[k] != kNone) {
        now.changing[number[k]] += sign;
        same_counts = false;
      } else {
        now.bytes += sign * kind.size;
        now.padding += sign * kind.padding;
        now.by_category[static_cast<std::size_t>(kind.category)] += sign * kind.size;
      }
    }
  };
  play(prologue_);
  play(step_);
  if (risen) note(time);
  // Most come to less than the moment with most, whatever the sizes are.
  const auto total_of = [&](const Moment& each) {
    std::int64_t total = each.bytes;
    for (std::size_t i = 0; i < changing_.size(); ++i) {
      total += each.changing[i] * kinds_[changing_[i]].size;
    }
    return total;
  };
  const auto best =
      std::max_element(moments_.begin(), moments_.end(),
                       [&](const Moment& a, const Moment& b) { return total_of(a) < total_of(b); });
  if (best == moments_.end()) return;
  const Moment most = *best;
  std::erase_if(moments_, [&](const Moment& each) {
    const bool before =
        each.bytes < most.bytes || (each.bytes == most.bytes && each.time > most.time);
    return before && std::equal(each.changing.begin(), each.changing.end(), most.changing.begin(),
                                std::less_equal<>());
  });
}

// The first moment with most.
MemoryPeak MemoryPlan::Peak() {
  if (!moments_known_) FindMoments();
  const Moment* best = nullptr;
  std::int64_t most = 0;
  for (const Moment& moment : moments_) {
    std::int64_t total = moment.bytes;
    for (std::size_t i = 0; i < changing_.size(); ++i) {
      total += moment.changing[i] * kinds_[changing_[i]].size;
    }
    if (total < most || (total == most && (best == nullptr || best->time < moment.time))) continue;
    best = &moment;
    most = total;
  }
  MemoryPeak peak;
  if (best == nullptr) return peak;
  peak.total = Bytes(most);
  peak.padding = Bytes(best->padding);
  for (int c = 0; c < program::kCategories; ++c) peak.by_category[c] = Bytes(best->by_category[c]);
  for (std::size_t i = 0; i < changing_.size(); ++i) {
    const Kind& kind = kinds_[changing_[i]];
    const std::int64_t count = best->changing[i];
    peak.padding += Bytes(count * kind.padding);
    peak.by_category[static_cast<std::size_t>(kind.category)] += Bytes(count * kind.size);
  }
  return peak;
}

void MemoryPlan::FillPools() {
  pools_known_ = true;
  pools_.assign(2 * streams_, {});
  std::vector<engine::PoolRequests> requests(pools_.size());
  const auto size_of = [&](const Change& change) { return kinds_[kind_of_[change.buffer]].block; };
  const auto pool_of = [&](const Change& change) -> std::uint32_t {
    return 2U * change.stream + (block_sizes_[size_of(change)].small ? 0U : 1U);
  };
  for (const Change& change : prologue_) {
    Pool& pool = pools_[pool_of(change)];
    pool.stay.push_back(size_of(change));
    pool.changes = pool.changes || block_sizes_[size_of(change)].changes;
  }
  struct Place {
    std::uint32_t pool = kNone, block = 0;
  };
  std::vector<Place> places(used_.size());
  // By pool, then size. A size can belong to several streams.
  std::vector<std::uint32_t> numbers(pools_.size() * block_sizes_.size(), kNone);
  for (const engine::PoolRequests::Part& part : parts_) {
    for (engine::PoolRequests& of_pool : requests) {
      of_pool.parts.push_back({.first = of_pool.requests.size()});
    }
    for (std::size_t i = part.first; i < part.last; ++i) {
      const Change& change = step_[i];
      Place& place = places[change.buffer];
      if (!change.release) {
        const std::uint32_t pool = pool_of(change);
        if (place.pool != pool) place = {.pool = pool, .block = requests[pool].blocks++};
      }
      const std::uint32_t size = size_of(change);
      std::uint32_t& number = numbers[place.pool * block_sizes_.size() + size];
      std::vector<std::uint32_t>& asked = pools_[place.pool].asked;
      if (number == kNone) {
        number = static_cast<std::uint32_t>(asked.size());
        asked.push_back(size);
      }
      requests[place.pool].requests.push_back(
          {.block = place.block, .size = number, .free = change.release});
    }
    for (engine::PoolRequests& of_pool : requests) {
      of_pool.parts.back().last = of_pool.requests.size();
    }
  }
  for (std::size_t p = 0; p < pools_.size(); ++p) {
    if (requests[p].requests.empty()) continue;
    requests[p].small = p % 2 == 0;
    FindKindsOfParts(requests[p]);
    pools_[p].courses = courses_->Of(std::move(requests[p]));
  }
}

// As the allocator does, for blocks that are never freed.
void MemoryPlan::PlaceWhatStays(Pool& pool, bool small) {
  if (pool.placed && !pool.changes) return;
  pool.placed = true;
  pool.segments = 0;
  pool.ends.clear();
  for (const std::uint32_t stays : pool.stay) {
    const std::int64_t size = block_sizes_[stays].size;
    auto best = pool.ends.end();
    for (auto end = pool.ends.begin(); end != pool.ends.end(); ++end) {
      if (*end >= size && (best == pool.ends.end() || *end < *best)) best = end;
    }
    if (best == pool.ends.end()) {
      const std::int64_t segment = engine::SegmentSize(size);
      pool.segments += segment;
      best = pool.ends.insert(best, segment);
    }
    *best -= size;
    const std::int64_t least = small ? engine::kMinBlockSize : engine::kSmallSize + 1;
    if (*best < least) pool.ends.erase(best);
  }
}

std::int64_t MemoryPlan::Reserved(Pool& pool, bool small, int steps) {
  PlaceWhatStays(pool, small);
  if (pool.courses == nullptr) return pool.segments;
  sizes_.clear();
  changes_.clear();
  for (const std::uint32_t size : pool.asked) {
    sizes_.push_back(block_sizes_[size].size);
    changes_.push_back(block_sizes_[size].changes ? 1 : 0);
  }
  // Nothing is ever put where less is left, and no neighbour is freed that it could be joined with.
  const std::int64_t smallest = *std::min_element(sizes_.begin(), sizes_.end());
  ends_.clear();
  for (const std::int64_t end : pool.ends) {
    if (end >= smallest) ends_.push_back(end);
  }
  return pool.segments + pool.courses->Taken({.requests = sizes_, .ends = ends_},
                                             {.requests = changes_, .ends = pool.changes}, steps);
}

std::optional<MemoryPeak> MemoryPlan::HandedOut(const Program& program, Bytes capacity) {
  if (!regular_) return std::nullopt;
  Learn(program);
  if (TooManyChange()) return std::nullopt;
  MemoryPeak peak = Peak();
  peak.reserved = peak.total;
  peak.fits = peak.total <= capacity;
  return peak;
}

void MemoryPlan::BuildLate(const MemoryTimes& times) {
  late_kinds_ = kinds_.size();
  staying_.assign(kinds_.size(), 0);
  for (const Change& change : prologue_) ++staying_[kind_of_[change.buffer]];
  std::vector<KindChange> changes;
  changes.reserve(step_.size());
  for (const Change& change : step_) {
    changes.push_back({.kind = kind_of_[change.buffer], .release = change.release});
  }
  late_.Build(changes, instructions_, *times.delayed, *times.schedule);
}

std::optional<MemoryPeak> MemoryPlan::HandedOut(const Program& program, const MemoryTimes& times,
                                                Bytes capacity) {
  if (!regular_) return std::nullopt;
  Learn(program);
  if (late_.schedule() != times.schedule->id || late_kinds_ != kinds_.size()) BuildLate(times);
  kind_sizes_.clear();
  std::int64_t held = 0;
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    kind_sizes_.push_back(kinds_[k].size);
    held += staying_[k] * kinds_[k].size;
  }
  const auto most = late_.MostHeld(times, kind_sizes_, held);
  if (!most) return std::nullopt;
  MemoryPeak peak;
  for (std::size_t k = 0; k < kinds_.size(); ++k) {
    const Kind& kind = kinds_[k];
    const std::int64_t count = staying_[k] + most->counts[k];
    peak.by_category[static_cast<std::size_t>(kind.category)] += Bytes(count * kind.size);
    peak.padding += Bytes(count * kind.padding);
  }
  peak.total = peak.reserved = Bytes(most->total);
  peak.fits = peak.total <= capacity;
  return peak;
}

std::optional<MemoryPeak> MemoryPlan::Of(const Program& program, int steps, Bytes capacity) {
  if (!regular_) return std::nullopt;
  Learn(program);
  if (TooManyChange() || !LearnBlockSizes()) return std::nullopt;
  if (!pools_known_) FillPools();
  MemoryPeak peak = Peak();
  for (std::size_t p = 0; p < pools_.size(); ++p) {
    peak.reserved += Bytes(Reserved(pools_[p], /*small=*/p % 2 == 0, steps));
  }
  if (peak.reserved <= capacity) return peak;
  // Whatever is given back, what is handed out must have its place.
  if (peak.total <= capacity) return std::nullopt;
  peak.fits = false;
  return peak;
}

}  // namespace stepcast::forecast
