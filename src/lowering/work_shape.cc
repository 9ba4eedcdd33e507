#include "src/lowering/work_shape.h"

#include <algorithm>

#include "src/base/bytes.h"

namespace stepcast::lowering {
namespace {

bool Same(const model::ForwardOperator& a, const model::ForwardOperator& b) {
  return a.kernel.kind == b.kernel.kind && a.creates == b.creates && a.parameters == b.parameters;
}

bool Same(const model::BackwardOperator& a, const model::BackwardOperator& b) {
  return a.kernel.kind == b.kernel.kind && a.gradients == b.gradients &&
         a.parameters == b.parameters;
}

template <typename Operator>
bool Same(const std::vector<Operator>& a, const std::vector<Operator>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Operator& one, const Operator& other) { return Same(one, other); });
}

bool BothOrNone(Bytes a, Bytes b) { return (a > Bytes(0)) == (b > Bytes(0)); }

bool Same(const model::LayerWork& a, const model::LayerWork& b) {
  return a.saved.size() == b.saved.size() && a.recomputed.size() == b.recomputed.size() &&
         BothOrNone(a.forward_transient, b.forward_transient) &&
         BothOrNone(a.backward_transient, b.backward_transient) &&
         a.forward_temporaries.size() == b.forward_temporaries.size() &&
         a.backward_temporaries.size() == b.backward_temporaries.size() &&
         Same(a.forward, b.forward) && Same(a.recompute, b.recompute) &&
         Same(a.backward, b.backward);
}

}  // namespace

bool SameShape(const std::vector<model::LayerWork>& a, const std::vector<model::LayerWork>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& one, const auto& other) { return Same(one, other); });
}

}  // namespace stepcast::lowering
