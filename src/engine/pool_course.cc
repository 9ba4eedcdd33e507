#include "src/engine/pool_course.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "src/base/check.h"
#include "src/engine/segment_sizes.h"

namespace stepcast::engine {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

std::uint64_t Mixed(std::uint64_t hash, std::uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15;
  return hash ^ hash >> 32;
}

// Numbers by pairs of numbers, of which the first is not kNone.
class PairTable {
 public:
  // kNone until it is set. Valid until the next call.
  std::uint32_t& At(std::uint32_t a, std::uint32_t b) {
    if (2 * (count_ + 1) > entries_.size()) Grow();
    Entry& entry = *Find(a, b);
    if (entry.a == kNone) {
      entry = {.a = a, .b = b};
      ++count_;
    }
    return entry.number;
  }

 private:
  struct Entry {
    std::uint32_t a = kNone, b = kNone, number = kNone;
  };

  Entry* Find(std::uint32_t a, std::uint32_t b) {
    const std::size_t mask = entries_.size() - 1;
    for (std::size_t at = Mixed(a, b) & mask;; at = (at + 1) & mask) {
      Entry& entry = entries_[at];
      if (entry.a == kNone || (entry.a == a && entry.b == b)) return &entry;
    }
  }

  void Grow() {
    std::vector<Entry> old(std::max<std::size_t>(64, 2 * entries_.size()));
    std::swap(old, entries_);
    for (const Entry& entry : old) {
      if (entry.a != kNone) *Find(entry.a, entry.b) = entry;
    }
  }

  std::vector<Entry> entries_;  // a power of two
  std::size_t count_ = 0;
};

}  // namespace

// Goes through the requests and writes the course.
class PoolRecorder {
 public:
  // Whether visits are left out.
  PoolRecorder(const PoolRequests& requests, const PoolSizes& sizes, const PoolChanges& changes,
               bool without_visits, PoolCourse& course)
      : requests_(requests),
        sizes_(sizes),
        changes_(changes),
        without_visits_(without_visits),
        course_(course),
        request_sums_(sizes.requests.size(), kNone),
        blocks_of_(requests.blocks, kNone),
        first_fit_(sizes.requests.size()) {
    // What is free at the end of a segment, and smaller than everything that is ever asked for,
    // stays free until it is joined with the block before it: as if it belonged to that one.
    std::vector<bool> asked(sizes.requests.size()), stays_out(sizes.requests.size(), true);
    for (const PoolRequests::Part& part : requests.parts) {
      for (std::size_t i = part.first; i < part.last; ++i) {
        const std::uint32_t size = requests.requests[i].size;
        asked[size] = true;
        if (!without_visits || !part.visit) stays_out[size] = false;
      }
    }
    if (!requests.requests.empty()) smallest_ = requests.requests.front().size;
    for (std::uint32_t i = 0; i < asked.size(); ++i) {
      if (asked[i] && SizeOf(i) < SizeOf(smallest_)) smallest_ = i;
    }
    course.smallest_ = smallest_;
    course.small_ = requests.small;
    course.most_unsplit_ = requests.small ? kMinBlockSize - 1 : kSmallSize;
    // No block is a sum of sizes that visits alone have; as constants they do no harm.
    for (std::uint32_t i = 0; i < asked.size(); ++i) {
      stays_out[i] = stays_out[i] && asked[i] && changes.requests[i] != 0 && i != smallest_;
      some_stay_out_ = some_stay_out_ || stays_out[i];
      if (!stays_out[i]) variables_ += changes.requests[i] != 0 ? 2 : 0;
    }
    if (changes.ends) variables_ += sizes.ends.size();
    AddSizes(stays_out);
    if (requests.requests.empty()) return;
    most_unsplit_ = Constant(course.most_unsplit_);
    for (std::uint32_t i = 0; i < asked.size(); ++i) {
      if (asked[i] && !stays_out[i]) Require(request_sums_[i], request_sums_[smallest_], 0);
    }
  }

  // False: visits must not be left out.
  bool Run(int rounds) {
    Follow(rounds);
    if (!visits_fit_) return false;
    // What is taken after the first visit might have been put into segments of that.
    return !visits_take_ || heads_.size() == heads_before_visits_;
  }

 private:
  void Follow(int rounds) {
    std::vector<Way> ways;
    std::vector<const PoolRequests::Part*> ahead;  // by these `state` is ahead of the blocks
    std::vector<std::uint64_t> state = State(), begin;
    for (course_.rounds_ = 1;; ++course_.rounds_) {
      begin = state;
      for (const PoolRequests::Part& part : requests_.parts) {
        const auto known = std::find_if(ways.begin(), ways.end(), [&](const Way& way) {
          return way.kind == part.kind && way.from == state;
        });
        if (known != ways.end()) {
          if (known->to == state) continue;
          ahead.push_back(&part);
          state = known->to;
          continue;
        }
        for (const PoolRequests::Part* before : ahead) Play(*before);
        ahead.clear();
        if (without_visits_ && part.visit) {
          if (LeaveOut(part)) {
            ways.push_back({.kind = part.kind, .from = state, .to = state});
            continue;
          }
          // It may not be too late to leave out none.
          visits_fit_ = !heads_before_visits_ && !some_stay_out_;
          if (!visits_fit_) return;
          without_visits_ = false;
        }
        Play(part);
        ways.push_back({.kind = part.kind, .from = std::move(state), .to = State()});
        state = ways.back().to;
      }
      course_.settled_ = state == begin;
      if (course_.settled_ || course_.rounds_ >= rounds) return;
    }
  }

  using Sum = PoolCourse::Sum;
  using SumIndex = std::uint32_t;

  // From the same blocks the same requests lead to the same blocks.
  struct Way {
    std::size_t kind = 0;
    std::vector<std::uint64_t> from, to;
  };
  struct Block {
    std::int64_t address = 0;
    SumIndex size = 0;
    std::uint32_t before = kNone, after = kNone;  // neighbours in the segment
    std::uint32_t owner = kNone;                  // the request's block; kNone: free
  };
  // The free blocks whose sizes are the same sum, the one at the lowest address last.
  struct FreeBlocks {
    struct Entry {
      std::int64_t address = 0;
      std::uint32_t block = kNone;
    };
    SumIndex size = 0;
    std::vector<Entry> blocks;
    // By request's size, where a block of these was the one to be taken: the others it was compared
    // with, one bit for each.
    std::vector<std::uint64_t> compared;
  };
  struct BySize {
    std::int64_t size = 0;
    std::uint32_t free = kNone;
  };
  // What is done with a block from which a request takes its part.
  struct Cut {
    enum class Way : std::uint8_t { kUnknown, kSplit, kWhole };
    SumIndex rest = kNone;
    Way at_end = Way::kUnknown, inside = Way::kUnknown;  // of a segment
  };

  std::int64_t SizeOf(std::uint32_t request) const { return sizes_.requests[request]; }

  // --- Sums.

  void AddSizes(const std::vector<bool>& stays_out) {
    std::size_t variable = 0;
    segment_sums_.resize(sizes_.requests.size(), kNone);
    for (std::uint32_t i = 0; i < sizes_.requests.size(); ++i) {
      if (stays_out[i]) continue;
      const bool changing = changes_.requests[i] != 0;
      const std::int64_t size = sizes_.requests[i];
      request_sums_[i] =
          changing ? Variable(Sum::Kind::kRequest, i, variable++, size) : Constant(size);
      const std::int64_t segment = SegmentSize(size);
      // A small one's is always the same.
      segment_sums_[i] = changing && !requests_.small
                             ? Variable(Sum::Kind::kSegment, i, variable, segment)
                             : Constant(segment);
      variable += changing ? 1 : 0;
    }
    for (std::uint32_t i = 0; i < sizes_.ends.size(); ++i) {
      AddSegment(changes_.ends ? Variable(Sum::Kind::kEnd, i, variable++, sizes_.ends[i])
                               : Constant(sizes_.ends[i]));
      List(heads_.back());
    }
  }

  SumIndex Constant(std::int64_t value) {
    factors_.assign(variables_ + 1, 0);
    factors_.back() = value;
    return Known({.kind = Sum::Kind::kConstant, .constant = value}, value);
  }

  SumIndex Variable(Sum::Kind kind, std::uint32_t number, std::size_t variable,
                    std::int64_t value) {
    factors_.assign(variables_ + 1, 0);
    factors_[variable] = 1;
    return Known({.kind = kind, .a = number}, value);
  }

  // a + b, or a - b.
  SumIndex Joined(SumIndex a, SumIndex b, bool minus) {
    SumIndex& known = minus ? differences_.At(a, b) : joined_.At(a, b);
    if (known != kNone) return known;
    const std::size_t width = variables_ + 1;
    factors_.resize(width);
    const std::int64_t sign = minus ? -1 : 1;
    bool constant = true;
    for (std::size_t i = 0; i < width; ++i) {
      factors_[i] = all_factors_[a * width + i] + sign * all_factors_[b * width + i];
      constant = constant && (i + 1 == width || factors_[i] == 0);
    }
    const std::int64_t value = values_[a] + sign * values_[b];
    Sum sum{.kind = minus ? Sum::Kind::kDifference : Sum::Kind::kSum, .a = a, .b = b};
    if (constant) sum = {.kind = Sum::Kind::kConstant, .constant = value};
    return known = Known(sum, value);
  }

  // The sum of factors_: it has one number, however it came about.
  SumIndex Known(const Sum& sum, std::int64_t value) {
    const std::size_t width = variables_ + 1;
    if (2 * (values_.size() + 1) > by_factors_.size()) GrowByFactors();
    std::uint32_t& entry = *FindByFactors(factors_.data());
    if (entry != kNone) return entry;
    entry = static_cast<SumIndex>(values_.size());
    all_factors_.insert(all_factors_.end(), factors_.begin(), factors_.begin() + width);
    values_.push_back(value);
    free_of_.push_back(kNone);
    cuts_.resize(cuts_.size() + sizes_.requests.size());
    course_.sums_.push_back(sum);
    return entry;
  }

  std::uint32_t* FindByFactors(const std::int64_t* factors) {
    const std::size_t width = variables_ + 1;
    const std::size_t mask = by_factors_.size() - 1;
    std::uint64_t hash = 0;
    for (std::size_t i = 0; i < width; ++i) {
      hash = Mixed(hash, static_cast<std::uint64_t>(factors[i]));
    }
    for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
      std::uint32_t& entry = by_factors_[at];
      if (entry == kNone) return &entry;
      if (std::equal(factors, factors + width, all_factors_.data() + entry * width)) return &entry;
    }
  }

  void GrowByFactors() {
    by_factors_.assign(std::max<std::size_t>(64, 2 * by_factors_.size()), kNone);
    for (SumIndex sum = 0; sum < values_.size(); ++sum) {
      *FindByFactors(all_factors_.data() + sum * (variables_ + 1)) = sum;
    }
  }

  bool IsConstant(SumIndex sum) const { return course_.sums_[sum].kind == Sum::Kind::kConstant; }

  // a - b >= least, as is the case.
  void Require(SumIndex a, SumIndex b, std::int64_t least) {
    if (a == b || (IsConstant(a) && IsConstant(b))) return;
    std::uint32_t& known = required_.At(a, b);
    if (known != kNone) {
      std::int64_t& bound = course_.conditions_[known].least;
      bound = std::max(bound, least);
      return;
    }
    known = static_cast<std::uint32_t>(course_.conditions_.size());
    course_.conditions_.push_back({.a = a, .b = b, .least = least});
  }

  // --- Blocks.

  std::uint32_t NewBlock(const Block& block) {
    if (unused_.empty()) {
      blocks_.push_back(block);
      return static_cast<std::uint32_t>(blocks_.size() - 1);
    }
    const std::uint32_t index = unused_.back();
    unused_.pop_back();
    blocks_[index] = block;
    return index;
  }

  std::uint32_t AddSegment(SumIndex size) {
    const std::uint32_t block = NewBlock({.address = next_address_, .size = size});
    next_address_ += values_[size];
    heads_.push_back(block);
    return block;
  }

  static void Set(std::vector<std::uint64_t>& bits, std::uint32_t bit) {
    bits[bit / 64] |= std::uint64_t{1} << bit % 64;
  }
  static void Clear(std::vector<std::uint64_t>& bits, std::uint32_t bit) {
    bits[bit / 64] &= ~(std::uint64_t{1} << bit % 64);
  }

  FreeBlocks& FreeOf(SumIndex size) {
    std::uint32_t& number = free_of_[size];
    if (number != kNone) return free_[number];
    number = static_cast<std::uint32_t>(free_.size());
    free_.push_back({.size = size, .blocks = {}, .compared = {}});
    const std::int64_t value = values_[size];
    const auto place = std::lower_bound(
        by_size_.begin(), by_size_.end(), value,
        [](const BySize& entry, std::int64_t least) { return entry.size < least; });
    const auto rank = static_cast<std::uint32_t>(place - by_size_.begin());
    by_size_.insert(place, {.size = value, .free = number});
    for (std::uint32_t request = 0; request < sizes_.requests.size(); ++request) {
      if (value < SizeOf(request)) ++first_fit_[request];
    }
    const std::size_t words = (free_.size() + 63) / 64;
    if (words > filled_.size()) Widen(words);
    // What is larger moves up by one.
    rank_of_.push_back(rank);
    for (std::size_t larger = rank + std::size_t{1}; larger < by_size_.size(); ++larger) {
      ++rank_of_[by_size_[larger].free];
    }
    std::uint64_t carry = 0;
    for (std::size_t word = rank / 64; word < words; ++word) {
      const std::uint64_t bits = filled_by_size_[word];
      const std::uint64_t below =
          word == rank / 64 ? (std::uint64_t{1} << rank % 64) - 1 : std::uint64_t{0};
      filled_by_size_[word] = (bits & below) | (bits & ~below) << 1 | carry;
      carry = bits >> 63;
    }
    free_.back().compared.resize(words * sizes_.requests.size());
    return free_.back();
  }

  // For more sizes of free blocks.
  void Widen(std::size_t words) {
    const auto widened = [&](const std::vector<std::uint64_t>& old) {
      std::vector<std::uint64_t> bits(words * sizes_.requests.size());
      const std::size_t before = filled_.size();
      for (std::size_t i = 0; before > 0 && i < old.size(); ++i) {
        bits[i / before * words + i % before] = old[i];
      }
      return bits;
    };
    for (FreeBlocks& free : free_) free.compared = widened(free.compared);
    compared_with_none_ = widened(compared_with_none_);
    filled_.resize(words);
    filled_by_size_.resize(words);
  }

  void List(std::uint32_t block) {
    const Block& state = blocks_[block];
    FreeBlocks& free = FreeOf(state.size);
    if (free.blocks.empty()) {
      Set(filled_, free_of_[state.size]);
      Set(filled_by_size_, rank_of_[free_of_[state.size]]);
    }
    const auto place = PlaceOf(free.blocks, state.address);
    free.blocks.insert(place, {.address = state.address, .block = block});
  }

  void Unlist(std::uint32_t block) {
    FreeBlocks& free = free_[free_of_[blocks_[block].size]];
    const auto found = PlaceOf(free.blocks, blocks_[block].address);
    STEPCAST_CHECK(found != free.blocks.end() && found->block == block, "a free block is listed");
    free.blocks.erase(found);
    if (free.blocks.empty()) NoteEmpty(free);
  }

  void NoteEmpty(const FreeBlocks& free) {
    Clear(filled_, free_of_[free.size]);
    Clear(filled_by_size_, rank_of_[free_of_[free.size]]);
  }

  // The first entry that does not lie higher. It is mostly near the end.
  static std::vector<FreeBlocks::Entry>::iterator PlaceOf(std::vector<FreeBlocks::Entry>& entries,
                                                          std::int64_t address) {
    auto place = entries.end();
    for (int tries = 0; tries < 8; ++tries) {
      if (place == entries.begin() || (place - 1)->address > address) return place;
      --place;
    }
    return std::lower_bound(
        entries.begin(), place, address,
        [](const FreeBlocks::Entry& entry, std::int64_t least) { return entry.address > least; });
  }

  // Why a block of free_[taken] serves the request (kNone: why none does): the others are too
  // small, or no smaller than this one. Where they are as large, this one's address is lower.
  void Compare(std::uint32_t request, std::uint32_t taken) {
    const std::size_t words = filled_.size();
    std::vector<std::uint64_t>& of_taken =
        taken == kNone ? compared_with_none_ : free_[taken].compared;
    for (std::size_t word = 0; word < words; ++word) {
      std::uint64_t& compared = of_taken[request * words + word];
      std::uint64_t fresh = filled_[word] & ~compared;
      if (fresh == 0) continue;
      compared |= fresh;
      for (; fresh != 0; fresh &= fresh - 1) {
        const auto other = static_cast<std::uint32_t>(
            64 * word + static_cast<std::size_t>(std::countr_zero(fresh)));
        const SumIndex others = free_[other].size;
        if (other == taken) {
          Require(others, request_sums_[request], 0);
        } else if (values_[others] < SizeOf(request)) {
          Require(request_sums_[request], others, 1);
        } else {
          const SumIndex own = free_[taken].size;
          Require(others, own, values_[others] > values_[own] ? 1 : 0);
        }
      }
    }
  }

  // Of the smallest free blocks that are large enough; kNone: there are none.
  std::uint32_t SmallestFor(std::uint32_t request) const {
    const std::uint32_t from = first_fit_[request];
    for (std::size_t word = from / 64; word < filled_by_size_.size(); ++word) {
      std::uint64_t bits = filled_by_size_[word];
      if (word == from / 64) bits &= ~std::uint64_t{0} << from % 64;
      if (bits != 0) {
        return static_cast<std::uint32_t>(64 * word +
                                          static_cast<std::size_t>(std::countr_zero(bits)));
      }
    }
    return kNone;
  }

  void Allocate(std::uint32_t owner, std::uint32_t request) {
    const std::uint32_t rank = SmallestFor(request);
    std::uint32_t block = kNone;
    if (rank == kNone) {
      Compare(request, kNone);
      ++course_.segments_[request];
      block = AddSegment(segment_sums_[request]);
    } else {
      std::uint32_t taken = by_size_[rank].free;
      for (std::size_t next = rank + std::size_t{1};
           next < by_size_.size() && by_size_[next].size == by_size_[rank].size; ++next) {
        const auto& blocks = free_[by_size_[next].free].blocks;
        if (!blocks.empty() && blocks.back().address < free_[taken].blocks.back().address) {
          taken = by_size_[next].free;
        }
      }
      Compare(request, taken);
      FreeBlocks& free = free_[taken];
      block = free.blocks.back().block;
      free.blocks.pop_back();
      if (free.blocks.empty()) NoteEmpty(free);
    }
    Split(block, request);
    blocks_[block].owner = owner;
    blocks_of_[owner] = block;
  }

  void Split(std::uint32_t block, std::uint32_t request) {
    const SumIndex whole = blocks_[block].size;
    const SumIndex asked = request_sums_[request];
    if (whole == asked) return;
    const bool at_end = blocks_[block].after == kNone;
    const std::size_t of = whole * sizes_.requests.size() + request;
    if ((at_end ? cuts_[of].at_end : cuts_[of].inside) == Cut::Way::kUnknown) {
      Decide(whole, request, at_end);
    }
    if ((at_end ? cuts_[of].at_end : cuts_[of].inside) == Cut::Way::kWhole) return;
    const std::uint32_t remainder = NewBlock({.address = blocks_[block].address + values_[asked],
                                              .size = cuts_[of].rest,
                                              .before = block,
                                              .after = blocks_[block].after});
    if (!at_end) blocks_[blocks_[remainder].after].before = remainder;
    blocks_[block].after = remainder;
    blocks_[block].size = asked;
    List(remainder);
  }

  void Decide(SumIndex whole, std::uint32_t request, bool at_end) {
    const SumIndex rest = Joined(whole, request_sums_[request], /*minus=*/true);
    Cut& cut = cuts_[whole * sizes_.requests.size() + request];
    cut.rest = rest;
    Cut::Way& way = at_end ? cut.at_end : cut.inside;
    const std::int64_t size = values_[rest];
    if (at_end) {
      const SumIndex smallest = request_sums_[smallest_];
      if (size < values_[smallest]) {
        Require(smallest, rest, 1);
        way = Cut::Way::kWhole;
        return;
      }
      Require(rest, smallest, 0);
    }
    if (size <= values_[most_unsplit_]) {
      Require(most_unsplit_, rest, 0);
      way = Cut::Way::kWhole;
      return;
    }
    Require(rest, most_unsplit_, 1);
    way = Cut::Way::kSplit;
  }

  // `second` lies behind `first` and becomes a part of it.
  void Join(std::uint32_t first, std::uint32_t second) {
    blocks_[first].size = Joined(blocks_[first].size, blocks_[second].size, /*minus=*/false);
    blocks_[first].after = blocks_[second].after;
    if (blocks_[first].after != kNone) blocks_[blocks_[first].after].before = first;
    unused_.push_back(second);
  }

  void Free(std::uint32_t owner) {
    std::uint32_t block = blocks_of_[owner];
    blocks_[block].owner = kNone;
    const std::uint32_t after = blocks_[block].after;
    if (after != kNone && blocks_[after].owner == kNone) {
      Unlist(after);
      Join(block, after);
    }
    const std::uint32_t before = blocks_[block].before;
    if (before != kNone && blocks_[before].owner == kNone) {
      Unlist(before);
      Join(before, block);
      block = before;
    }
    List(block);
  }

  void Play(const PoolRequests::Part& part) {
    for (std::size_t i = part.first; i < part.last; ++i) {
      const PoolRequests::Request& request = requests_.requests[i];
      if (request.free) {
        Free(request.block);
      } else {
        Allocate(request.block, request.size);
      }
    }
  }

  // False: it finds no room.
  bool LeaveOut(const PoolRequests::Part& part) {
    PoolCourse::Visit visit;
    for (std::size_t i = part.first; i < part.last; ++i) {
      const PoolRequests::Request& request = requests_.requests[i];
      if (request.free) break;
      if (visit.asked.empty() || visit.asked.back().size != request.size) {
        visit.asked.push_back({.size = request.size});
      }
      ++visit.asked.back().count;
      visit.varies = visit.varies || changes_.requests[request.size] != 0;
    }
    for (const FreeBlocks& free : free_) {
      if (free.blocks.empty()) continue;
      visit.free.push_back(
          {.sum = free.size, .count = static_cast<std::uint32_t>(free.blocks.size())});
      visit.varies = visit.varies || !IsConstant(free.size);
    }
    std::vector<PoolCourse::Room::Free> room;
    const auto segments = course_.SegmentsFor(visit, values_, sizes_, room);
    if (!segments) return false;
    if (!heads_before_visits_) heads_before_visits_ = heads_.size();
    // Where it varies, it may take some in other sizes.
    visits_take_ = visits_take_ || *segments > 0 || (visit.varies && requests_.small);
    if (visit.varies) {
      course_.visits_.push_back(std::move(visit));
    } else {
      course_.visited_segments_ = std::max(course_.visited_segments_, *segments);
    }
    return true;
  }

  // All blocks in the order of their addresses.
  std::vector<std::uint64_t> State() const {
    std::vector<std::uint64_t> state;
    state.reserve(blocks_.size() - unused_.size());
    for (const std::uint32_t head : heads_) {
      for (std::uint32_t block = head; block != kNone; block = blocks_[block].after) {
        state.push_back(std::uint64_t{blocks_[block].size} << 32 | blocks_[block].owner);
      }
    }
    return state;
  }

  const PoolRequests& requests_;
  const PoolSizes& sizes_;
  const PoolChanges& changes_;
  bool without_visits_;
  PoolCourse& course_;
  bool some_stay_out_ = false;  // sizes that only visits have
  bool visits_fit_ = true, visits_take_ = false;
  std::optional<std::size_t> heads_before_visits_{};

  std::size_t variables_ = 0;
  std::vector<SumIndex> request_sums_, segment_sums_;  // by request's size
  std::uint32_t smallest_ = 0;                         // of all requests
  SumIndex most_unsplit_ = kNone;                      // a rest of so much stays with its block
  // By sum. Two sums with the same factors are one; the last factor is the constant.
  std::vector<std::int64_t> values_, all_factors_;
  std::vector<std::uint32_t> free_of_;
  std::vector<std::int64_t> factors_;
  std::vector<std::uint32_t> by_factors_;  // a table of sums
  PairTable joined_, differences_, required_;

  std::vector<Block> blocks_;
  std::vector<std::uint32_t> unused_, heads_, blocks_of_;
  std::int64_t next_address_ = 0;
  std::vector<FreeBlocks> free_;
  std::vector<BySize> by_size_;         // of free_, ascending
  std::vector<std::uint32_t> rank_of_;  // by free_: in by_size_
  // Which have blocks: a bit for each, in the order of free_ and of by_size_.
  std::vector<std::uint64_t> filled_, filled_by_size_;
  std::vector<std::uint32_t> first_fit_;  // by request's size: in by_size_
  std::vector<std::uint64_t> compared_with_none_;
  std::vector<Cut> cuts_;  // by sum, then request's size
};

PoolCourse::PoolCourse(const PoolRequests& requests, const PoolSizes& sizes,
                       const PoolChanges& changes, int rounds)
    : requests_(sizes.requests.begin(), sizes.requests.end()),
      ends_(sizes.ends.begin(), sizes.ends.end()),
      changes_(changes.requests.begin(), changes.requests.end()),
      ends_change_(changes.ends) {
  Record(requests, sizes, changes, rounds);
  KeepWhatIsNeeded();
}

void PoolCourse::Record(const PoolRequests& requests, const PoolSizes& sizes,
                        const PoolChanges& changes, int rounds) {
  const bool has_visits = std::any_of(requests.parts.begin(), requests.parts.end(),
                                      [](const PoolRequests::Part& part) { return part.visit; });
  for (const bool without_visits : {true, false}) {
    if (without_visits && !has_visits) continue;
    sums_.clear();
    conditions_.clear();
    visits_.clear();
    visited_segments_ = 0;
    segments_.assign(sizes.requests.size(), 0);
    PoolRecorder recorder(requests, sizes, changes, without_visits, *this);
    if (recorder.Run(rounds)) return;
  }
}

std::optional<std::int64_t> PoolCourse::SegmentsFor(const Visit& visit,
                                                    std::span<const std::int64_t> values,
                                                    const PoolSizes& sizes,
                                                    std::vector<Room::Free>& free) const {
  std::int64_t segments = 0;
  for (const Asked& asked : visit.asked) {
    // It might get what counts as a part of the block before it.
    if (sizes.requests[asked.size] < sizes.requests[smallest_]) return std::nullopt;
  }
  free.clear();
  for (const Free& block : visit.free) {
    free.push_back({.size = values[block.sum], .count = block.count});
  }
  if (HaveRoom(free, visit, sizes)) return 0;
  const auto smaller = [](const Room::Free& a, const Room::Free& b) { return a.size < b.size; };
  std::sort(free.begin(), free.end(), smaller);
  for (const Asked& asked : visit.asked) {
    const std::int64_t size = sizes.requests[asked.size];
    for (std::uint32_t count = asked.count; count > 0;) {
      const auto best =
          std::lower_bound(free.begin(), free.end(), Room::Free{.size = size}, smaller);
      std::int64_t rest = 0;
      if (best != free.end()) {
        rest = best->size;
      } else if (small_) {
        ++segments;
        rest = SegmentSize(size);
      } else {
        return std::nullopt;
      }
      // What it leaves is the smallest that is large enough for the next one, if it is.
      const auto taken = static_cast<std::uint32_t>(std::min<std::int64_t>(count, rest / size));
      rest -= taken * size;
      count -= taken;
      const bool last = best != free.end() && --best->count == 0;
      const Room::Free left{.size = rest, .count = 1};
      const auto place = std::lower_bound(free.begin(), best, left, smaller);
      if (rest <= most_unsplit_) {
        if (last) free.erase(best);
      } else if (place != best && place->size == rest) {
        ++place->count;
        if (last) free.erase(best);
      } else if (last) {
        std::move_backward(place, best, best + 1);
        *place = left;
      } else {
        free.insert(place, left);
      }
    }
  }
  return segments;
}

// Each block leaves one rest at most, and where a request found none, all of these were smaller
// than that: what was taken came to more than all that blocks have beyond the largest request.
bool PoolCourse::HaveRoom(std::span<const Room::Free> free, const Visit& visit,
                          const PoolSizes& sizes) const {
  std::int64_t largest = 0, all = 0;
  for (const Asked& asked : visit.asked) {
    const std::int64_t size = sizes.requests[asked.size];
    largest = std::max(largest, size);
    all += asked.count * (size + most_unsplit_);
  }
  std::int64_t beyond = 0;
  for (const Room::Free& blocks : free) {
    beyond += blocks.count * std::max<std::int64_t>(blocks.size - largest, 0);
  }
  return beyond >= all;
}

void PoolCourse::KeepWhatIsNeeded() {
  std::vector<std::uint32_t> number(sums_.size(), kNone);
  for (const Condition& condition : conditions_) number[condition.a] = number[condition.b] = 0;
  for (const Visit& visit : visits_) {
    for (const Free& free : visit.free) number[free.sum] = 0;
  }
  for (std::size_t i = sums_.size(); i-- > 0;) {
    if (number[i] == kNone || sums_[i].kind < Sum::Kind::kSum) continue;
    number[sums_[i].a] = number[sums_[i].b] = 0;
  }
  std::uint32_t kept = 0;
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    if (number[i] == kNone) continue;
    number[i] = kept;
    Sum sum = sums_[i];
    if (sum.kind >= Sum::Kind::kSum) {
      sum.a = number[sum.a];
      sum.b = number[sum.b];
    }
    sums_[kept++] = sum;
  }
  sums_.resize(kept);
  sums_.shrink_to_fit();
  for (Condition& condition : conditions_) {
    condition.a = number[condition.a];
    condition.b = number[condition.b];
  }
  conditions_.shrink_to_fit();
  for (Visit& visit : visits_) {
    for (Free& free : visit.free) free.sum = number[free.sum];
  }
}

std::optional<std::int64_t> PoolCourse::Taken(const PoolSizes& sizes, int rounds,
                                              Room& room) const {
  if (settled_ ? rounds < rounds_ : rounds != rounds_) return std::nullopt;
  if (sizes.requests.size() != requests_.size() || sizes.ends.size() != ends_.size()) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (changes_[i] == 0 && sizes.requests[i] != requests_[i]) return std::nullopt;
  }
  if (!ends_change_ && !std::equal(ends_.begin(), ends_.end(), sizes.ends.begin())) {
    return std::nullopt;
  }
  std::vector<std::int64_t>& values = room.values;
  values.resize(sums_.size());
  for (std::size_t i = 0; i < sums_.size(); ++i) {
    const Sum& sum = sums_[i];
    switch (sum.kind) {
      case Sum::Kind::kConstant:
        values[i] = sum.constant;
        break;
      case Sum::Kind::kRequest:
        values[i] = sizes.requests[sum.a];
        break;
      case Sum::Kind::kSegment:
        values[i] = SegmentSize(sizes.requests[sum.a]);
        break;
      case Sum::Kind::kEnd:
        values[i] = sizes.ends[sum.a];
        break;
      case Sum::Kind::kSum:
        values[i] = values[sum.a] + values[sum.b];
        break;
      case Sum::Kind::kDifference:
        values[i] = values[sum.a] - values[sum.b];
        break;
    }
  }
  for (const Condition& condition : conditions_) {
    if (values[condition.a] - values[condition.b] < condition.least) return std::nullopt;
  }
  // Of several visits each has the segments of those before.
  std::int64_t visited = visited_segments_;
  for (const Visit& visit : visits_) {
    const auto segments = SegmentsFor(visit, values, sizes, room.free);
    if (!segments) return std::nullopt;
    visited = std::max(visited, *segments);
  }
  std::int64_t taken = visited * kSmallBuffer;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    if (segments_[i] > 0) taken += segments_[i] * SegmentSize(sizes.requests[i]);
  }
  return taken;
}

}  // namespace stepcast::engine
