#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/plan/facts.h"
#include "src/plan/framework.h"
#include "src/plan/request.h"

// What a framework decides by a plan's settings: defaults that depend on several of them, and plans
// that it cannot have. One file of src/plan/frameworks holds a
// framework's policy, its header the values that hold whatever the plan (framework_style.h).
namespace stepcast::plan {

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
};

const FrameworkPolicy& PolicyOf(Framework framework);

// The size that was requested for buckets, if it is one in bytes; else null.
const Bytes* RequestedBucketSize(const Request& request);
// torch.nn.parallel.DistributedDataParallel: bucket_cap_mb = 25; c10d's kDefaultFirstBucketBytes.
inline constexpr Bytes kDefaultBucket = MiB(25);
inline constexpr Bytes kDdpFirstBucket = MiB(1);

}  // namespace stepcast::plan
