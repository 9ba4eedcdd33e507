#include "src/plan/framework_policy.h"

#include <cstddef>
#include <variant>

#include "src/plan/frameworks/frameworks.h"

namespace stepcast::plan {

void FrameworkPolicy::SetGradientTypes(const Request& request, Training& training) const {
  training.gradient_dtype = request.gradient_dtype.value_or(training.parameter_dtype);
  training.reduce_dtype = request.reduce_dtype.value_or(training.parameter_dtype);
}

void FrameworkPolicy::SetDefaults(const Request&, const Training&, std::int64_t,
                                  DataParallel&) const {}

void FrameworkPolicy::Check(const Request&, const Facts&, std::vector<Violation>&) const {}

const FrameworkPolicy& PolicyOf(Framework framework) {
  // The traits of all frameworks, indexed by Framework.
  static const FrameworkPolicy* const kPolicies[] = {
      &ReferencePolicy(), &DdpPolicy(),      &Fsdp1Policy(),   &Fsdp2Policy(),
      &DeepSpeedPolicy(), &MegatronPolicy(), &NanotronPolicy()};
  return *kPolicies[static_cast<std::size_t>(framework)];
}

const Bytes* RequestedBucketSize(const Request& request) {
  return request.bucket_size ? std::get_if<Bytes>(&*request.bucket_size) : nullptr;
}

}  // namespace stepcast::plan
