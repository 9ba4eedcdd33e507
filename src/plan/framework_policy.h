#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "src/plan/facts.h"
#include "src/plan/framework.h"
#include "src/plan/request.h"

// The rules of a framework that depend on a plan's settings: defaults, and unsupported plans. Each
// framework's policy is in a file of src/plan/frameworks. framework_style.h has the values that do
// not depend on the plan.
namespace stepcast::plan {

class FrameworkPolicy {
 public:
  virtual ~FrameworkPolicy() = default;

  // Sets the defaults of gradient_dtype and reduce_dtype. The type of parameters is already set.
  // The base class sets both types to the type of parameters.
  virtual void SetGradientTypes(const Request& request, Training& training) const;

  // Sets the defaults of `data_parallel` that are specific to the framework or depend on other
  // settings. Values from the scenario, and defaults that all frameworks share, are already set.
  // `data` is the data-parallel degree.
  virtual void SetDefaults(const Request& request, const Training& training, std::int64_t data,
                           DataParallel& data_parallel) const;

  // Adds violations that are specific to the framework. legality.h has the rules that follow from
  // traits and style.
  virtual void Check(const Request& request, const Facts& facts,
                     std::vector<Violation>& violations) const;
};

const FrameworkPolicy& PolicyOf(Framework framework);

// Returns the requested bucket size if it is in bytes, otherwise null. The pointer is valid as long
// as the request.
const Bytes* RequestedBucketSize(const Request& request);
// The defaults of torch.nn.parallel.DistributedDataParallel: bucket_cap_mb = 25, and c10d's
// kDefaultFirstBucketBytes.
inline constexpr Bytes kDefaultBucket = MiB(25);
inline constexpr Bytes kDdpFirstBucket = MiB(1);

}  // namespace stepcast::plan
