#include "src/lowering/buckets.h"

#include <algorithm>

namespace stepcast::lowering {

std::vector<int> GradientReadyOrder(const model::Model& model,
                                    std::span<const model::LayerWork> works) {
  std::vector<int> contributions(model.tensors.size(), 0);
  for (const model::Layer& layer : model.layers) {
    for (const int tensor : layer.tensors) ++contributions[tensor];
  }
  std::vector<int> order;
  order.reserve(model.tensors.size());
  for (auto layer = model.layers.rbegin(); layer != model.layers.rend(); ++layer) {
    for (const model::BackwardOperator& op : works[layer->work].backward) {
      const auto first = order.size();
      for (const int position : op.gradients) {
        const int tensor = layer->tensors[position];
        if (--contributions[tensor] == 0) order.push_back(tensor);
      }
      std::sort(order.begin() + static_cast<std::ptrdiff_t>(first), order.end(), std::greater<>());
    }
  }
  return order;
}

std::vector<Bucket> AssignBuckets(const model::Model& model, std::span<const int> order,
                                  std::int64_t bytes_per_element, Bytes first_limit, Bytes limit) {
  std::vector<Bucket> buckets;
  bool open = false;
  for (const int tensor : order) {
    if (!open) buckets.emplace_back();
    Bucket& bucket = buckets.back();
    bucket.tensors.push_back(tensor);
    bucket.elements += model.tensors[tensor].elements;
    const Bytes size(bucket.elements * bytes_per_element);
    open = size < (buckets.size() == 1 ? first_limit : limit);
  }
  return buckets;
}

}  // namespace stepcast::lowering
