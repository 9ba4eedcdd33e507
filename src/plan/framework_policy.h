#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/plan/facts.h"
#include "src/plan/framework.h"
#include "src/plan/request.h"

// What a framework decides by a plan's settings: defaults that depend on several of them, plans
// that it cannot have, and settings that a search tries. One file of src/plan/frameworks holds a
// framework's policy, its header the values that hold whatever the plan (framework_style.h).
namespace stepcast::plan {

// What a search knows of its plans.
struct SearchFacts {
  std::int64_t data = 1;           // ranks of the data axis
  std::int64_t data_per_node = 1;  // of them those in one node
  std::int64_t context = 1;        // ranks that have parts of a sequence
  bool tensor = false;             // layers are divided
  bool pipeline = false;           // there is one
  bool accumulates = false;        // some plans have several micro-batches
  bool host = false;               // the nodes' memory is described
};

// A setting of data_parallel, and where the values come from that a search tries.
struct SearchedSetting {
  enum class Source {
    kTable,        // the row of the table of settings
    kSaid,         // `values`
    kBucketSizes,  // sizes up to the first that holds all gradients of `element_bytes` each
    kShardGroups,  // a node, powers of two of nodes, and all ranks
  };
  std::string key;
  Source source = Source::kTable;
  std::vector<std::string> values{};
  std::int64_t element_bytes = 0;

  static SearchedSetting Of(std::string key, std::vector<std::string> values) {
    return {.key = std::move(key), .source = Source::kSaid, .values = std::move(values)};
  }
  static SearchedSetting Switch(std::string key) { return Of(std::move(key), {"false", "true"}); }
  static SearchedSetting BucketSizes(DataType gradients) {
    return {
        .key = "bucket_size", .source = Source::kBucketSizes, .element_bytes = SizeOf(gradients)};
  }
  static SearchedSetting ShardGroups() {
    return {.key = "shard_group_size", .source = Source::kShardGroups};
  }
};
// The value of an axis that leaves a setting out, so that its default holds.
inline constexpr const char* kLeftOut = "null";

class FrameworkPolicy {
 public:
  virtual ~FrameworkPolicy() = default;

  // Gives gradient_dtype and reduce_dtype their defaults. The types of parameters are there. Here:
  // the parameters' type.
  virtual void SetGradientTypes(const Request& request, Training& training) const;

  // Gives settings of data_parallel the defaults that are this framework's own, or depend on other
  // settings. What the request says is there, and so are the defaults that hold for all frameworks.
  // `data`: the data-parallel degree.
  virtual void SetDefaults(const Request& request, const Training& training, std::int64_t data,
                           DataParallel& data_parallel) const;

  // Adds what the framework cannot do of what is requested. Rules that follow from its traits and
  // its style are those of legality.h.
  virtual void Check(const Request& request, const Facts& facts,
                     std::vector<Violation>& violations) const;

  // Settings that a search tries beside those of which the table has values, in the order in which
  // their values win ties.
  virtual std::vector<SearchedSetting> Searched(const SearchFacts& facts, const Training& training,
                                                int stage) const;
};

const FrameworkPolicy& PolicyOf(Framework framework);

// The size that was requested for buckets, if it is one in bytes; else null.
const Bytes* RequestedBucketSize(const Request& request);
// torch.nn.parallel.DistributedDataParallel: bucket_cap_mb = 25; c10d's kDefaultFirstBucketBytes.
inline constexpr Bytes kDefaultBucket = MiB(25);
inline constexpr Bytes kDdpFirstBucket = MiB(1);

}  // namespace stepcast::plan
