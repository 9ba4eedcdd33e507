#include "src/lowering/buckets.h"

#include <algorithm>
#include <cstddef>
#include <functional>

namespace stepcast::lowering {

std::vector<int> GradientReadyOrder(const model::Model& model,
                                    std::span<const model::LayerWork> works,
                                    std::span<const int> work_of_layer) {
  std::vector<int> contributions(model.tensors.size(), 0);
  for (const model::Layer& layer : model.layers) {
    for (const int tensor : layer.tensors) ++contributions[tensor];
  }
  std::vector<int> order;
  order.reserve(model.tensors.size());
  for (std::size_t index = model.layers.size(); index-- > 0;) {
    const model::Layer& layer = model.layers[index];
    for (const model::Operation& op :
         works[static_cast<std::size_t>(work_of_layer[index])].backward) {
      const auto first = order.size();
      for (const int position : op.gradients) {
        const int tensor = layer.tensors[position];
        if (--contributions[tensor] == 0) order.push_back(tensor);
      }
      if (order.size() - first <= 1) continue;
      std::sort(order.begin() + static_cast<std::ptrdiff_t>(first), order.end(), std::greater<>());
    }
  }
  return order;
}

std::vector<Bucket> AssignBuckets(const model::Model& model, std::span<const int> order,
                                  std::int64_t bytes_per_element, Bytes first_limit, Bytes limit) {
  std::vector<Bucket> buckets;
  for (std::size_t first = 0; first < order.size();) {
    const Bytes own_limit = buckets.empty() ? first_limit : limit;
    std::int64_t elements = 0;
    std::size_t last = first;
    do {
      elements += model.tensors[order[last++]].elements;
    } while (last < order.size() && Bytes(elements * bytes_per_element) < own_limit);
    buckets.push_back({.tensors = order.subspan(first, last - first), .elements = elements});
    first = last;
  }
  return buckets;
}

}  // namespace stepcast::lowering
