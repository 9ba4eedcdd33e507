#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

// What becomes of one pool of PyTorch's caching allocator (caching_allocator.h; segments that do
// not expand) on a device that is never full, for programs that make the same requests in other
// sizes.
//
// Sizes decide by comparisons alone: which free block is the smallest that is large enough, whether
// its rest is split off. A course goes through all requests once, in the sizes of one program, and
// notes each comparison as one of sums of sizes. In other sizes for which these come out the same,
// the same blocks are cut and joined, and the pool takes segments for the same requests: what it
// comes to is a sum.
//
// A list of tensors that comes and goes as a whole (what a foreach optimizer makes) is cut into
// free blocks in another way for nearly all sizes. Where it finds room among them it leaves no
// trace, though: a course can leave it out, and know from which blocks it would have to be cut. In
// the small pool it may take segments, too, if nothing else does after it: these are as large as a
// block can be and lie higher than all others, so that nothing else is put there as long as it fits
// elsewhere.
namespace stepcast::engine {

struct PoolRequests {
  struct Request {
    std::uint32_t block = 0;  // which: each is allocated and freed in turns
    std::uint32_t size = 0;   // which
    bool free = false;
    friend bool operator==(const Request&, const Request&) = default;
  };
  // requests[first, last). A visit: allocates, and then frees all of that and nothing else.
  struct Part {
    std::size_t first = 0, last = 0;
    std::size_t kind = 0;  // the first part with the same requests
    bool visit = false;
    friend bool operator==(const Part&, const Part&) = default;
  };
  bool small = false;        // the pool
  std::uint32_t blocks = 0;  // how many
  std::vector<Request> requests{};
  std::vector<Part> parts{};  // a round, in order; at its end no block is allocated
  friend bool operator==(const PoolRequests&, const PoolRequests&) = default;
};

struct PoolSizes {
  std::span<const std::int64_t> requests{};  // by number, as BlockSize rounds them
  // What is free at the beginning, ascending in addresses: the ends of segments, each behind a
  // block that is never freed.
  std::span<const std::int64_t> ends{};
};

// Whether the sizes are likely to be others for other programs.
struct PoolChanges {
  std::span<const std::uint8_t> requests{};  // by number
  bool ends = false;
};

class PoolCourse {
 public:
  // For Taken: memory that is used again.
  struct Room {
    struct Free {
      std::int64_t size = 0;
      std::uint32_t count = 0;
    };
    std::vector<std::int64_t> values{};
    std::vector<Free> free{};
  };

  // Through `rounds` rounds, or until one leaves the pool as it found it.
  PoolCourse(const PoolRequests& requests, const PoolSizes& sizes, const PoolChanges& changes,
             int rounds);

  // The segments that the pool takes in so many rounds, in bytes; nothing if in these sizes another
  // course would be taken, or if that is not known. The same requests as before.
  std::optional<std::int64_t> Taken(const PoolSizes& sizes, int rounds, Room& room) const;

 private:
  friend class PoolRecorder;

  // A sum of sizes.
  struct Sum {
    enum class Kind : std::uint8_t { kConstant, kRequest, kSegment, kEnd, kSum, kDifference };
    Kind kind = Kind::kConstant;
    std::uint32_t a = 0, b = 0;  // the number of a size; two sums that stand before this one
    std::int64_t constant = 0;
  };
  // a - b >= least
  struct Condition {
    std::uint32_t a = 0, b = 0;
    std::int64_t least = 0;
    friend bool operator==(const Condition&, const Condition&) = default;
  };

  // Blocks that are free when a visit comes.
  struct Free {
    std::uint32_t sum = 0, count = 0;
  };
  // Requests for the same size, one after the other.
  struct Asked {
    std::uint32_t size = 0, count = 0;
  };
  struct Visit {
    std::vector<Asked> asked{};
    std::vector<Free> free{};
    bool varies = false;  // one of these may be another for other programs
  };

  void Record(const PoolRequests& requests, const PoolSizes& sizes, const PoolChanges& changes,
              int rounds);
  void KeepWhatIsNeeded();
  // The segments that it takes beside the free blocks; nothing where it cannot be left out.
  // `values`: of sums.
  std::optional<std::int64_t> SegmentsFor(const Visit& visit, std::span<const std::int64_t> values,
                                          const PoolSizes& sizes,
                                          std::vector<Room::Free>& free) const;
  // Surely, without looking closer.
  bool HaveRoom(std::span<const Room::Free> free, const Visit& visit, const PoolSizes& sizes) const;

  std::vector<std::int64_t> requests_, ends_;  // the sizes it was made with
  std::vector<std::uint8_t> changes_;          // by request
  bool ends_change_ = false;
  int rounds_ = 0;
  bool settled_ = false;  // the last round left the pool as it found it
  std::vector<Sum> sums_;
  std::vector<Condition> conditions_;
  std::vector<std::int64_t> segments_;  // by request's size: how many
  std::vector<Visit> visits_;           // that are left out, and vary
  std::int64_t visited_segments_ = 0;   // the most that one takes that does not vary
  bool small_ = false;                  // visits may take segments
  std::uint32_t smallest_ = 0;          // of all requests, by number
  std::int64_t most_unsplit_ = 0;       // a rest of so much stays with its block
};

}  // namespace stepcast::engine
