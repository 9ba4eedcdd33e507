#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/plan/facts.h"
#include "src/plan/framework.h"
#include "src/plan/request.h"

// The rules of a framework that depend on a plan: defaults, and unsupported plans. Each framework's
// policy is in a file of src/plan/frameworks. Constants are in framework_style.h.
namespace stepcast::plan {

class FrameworkPolicy {
 public:
  virtual ~FrameworkPolicy() = default;

  // Sets the defaults of gradient_dtype and reduce_dtype. The base class uses the type of
  // parameters, which is already set.
  virtual void SetGradientTypes(const Request& request, Training& training) const;

  // Sets the defaults of `data_parallel` that are specific to the framework or depend on other
  // settings. Values from the scenario and defaults of all frameworks are already set. `data` is
  // the data-parallel degree.
  virtual void SetDefaults(const Request& request, const Training& training, std::int64_t data,
                           DataParallel& data_parallel) const;

  // Adds violations that are specific to the framework. legality.h has the rules that follow from
  // traits and style.
  virtual void Check(const Request& request, const Facts& facts,
                     std::vector<Violation>& violations) const;
};

const FrameworkPolicy& PolicyOf(Framework framework);

// Returns the requested bucket size if it is in bytes, otherwise null. Owned by the request.
const Bytes* RequestedBucketSize(const Request& request);
// The defaults of torch.nn.parallel.DistributedDataParallel: bucket_cap_mb = 25, and c10d's
// kDefaultFirstBucketBytes.
inline constexpr Bytes kDefaultBucket = MiB(25);
inline constexpr Bytes kDdpFirstBucket = MiB(1);

}  // namespace stepcast::plan
