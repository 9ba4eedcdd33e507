#include "src/plan/framework_style.h"

#include <cstddef>

#include "src/plan/frameworks/frameworks.h"

namespace stepcast::plan {

const FrameworkStyle& StyleOf(Framework framework) {
  // The traits of all frameworks, indexed by Framework.
  static constexpr const FrameworkStyle* kStyles[] = {
      &kReferenceStyle, &kDdpStyle,      &kFsdp1Style,   &kFsdp2Style,
      &kDeepSpeedStyle, &kMegatronStyle, &kNanotronStyle};
  return *kStyles[static_cast<std::size_t>(framework)];
}

}  // namespace stepcast::plan
