// SPDX-License-Identifier: Apache-2.0
#include "GroupCommunicators.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace kerf::runtime {

GroupCommunicators::~GroupCommunicators() { waitForAll(); }

void GroupCommunicators::waitForAll() {
  for (const Making &making : makings) {
    making.hasRoot.wait();
    (void)waitFor(making.handle);
  }
  for (auto sent = sentRoots.begin(); sent != sentRoots.end(); sent = sentRoots.upper_bound(sent->first))
    (void)messages.finishSends(sent->first); // a rank may be copying the bytes
  sentRoots.clear();
}

void GroupCommunicators::each(const std::function<void(void *)> &visit) const {
  for (const Making &making : makings)
    if (making.handle.wait_for(std::chrono::seconds(0)) == std::future_status::ready)
      if (const Result<void *> &made = making.handle.get())
        visit(*made);
}

Result<void *> GroupCommunicators::waitFor(const Handle &handle) const {
  constexpr auto kBetweenLooks = std::chrono::milliseconds(20);
  while (handle.wait_for(kBetweenLooks) != std::future_status::ready)
    if (std::optional<Error> failure = messages.failure())
      return *failure;
  return handle.get();
}

GroupCommunicators::Handle GroupCommunicators::start(Root root, From from, int64_t ranks, int64_t rank,
                                                     std::shared_future<void> after) {
  auto rooted = std::make_shared<std::promise<void>>();
  auto made = std::make_shared<std::promise<Result<void *>>>();
  Handle handle = made->get_future().share();
  makings.push_back({rooted->get_future().share(), handle});
  std::thread([library = library, &messages = messages, rooted, made, root, from, ranks, rank, after] {
    Root shared = root;
    Status status = ok();
    if (!shared) {
      if (after.valid())
        after.wait();
      shared = std::make_shared<std::vector<std::byte>>(library->rootBytes);
      status = messages.receive(*shared, from.rank, from.tag);
    }
    rooted->set_value(); // from here on nothing of this object is used
    made->set_value(status ? library->join(*shared, ranks, rank) : Result<void *>(status.error()));
  }).detach();
  return handle;
}

Result<GroupCommunicators::Root> GroupCommunicators::newRoot() const {
  auto root = std::make_shared<std::vector<std::byte>>(library->rootBytes);
  if (Status status = library->makeRoot(*root); !status)
    return status.error();
  return root;
}

Status GroupCommunicators::sendRoot(const Root &root, int64_t to, int64_t tag) {
  sentRoots.emplace(tag, root);
  return messages.startSend(*root, to, tag);
}

Result<GroupCommunicators::Handle> GroupCommunicators::ofGroup(const std::vector<int64_t> &members, int64_t tag) {
  if (auto found = groups.find(members); found != groups.end())
    return found->second;
  Root root;
  if (messages.rank() == members[0]) {
    auto made = newRoot();
    if (!made)
      return made.error();
    root = *made;
    for (size_t i = 1; i < members.size(); ++i)
      if (Status sent = sendRoot(root, members[i], tag); !sent)
        return sent.error();
  }
  int64_t rank = std::find(members.begin(), members.end(), messages.rank()) - members.begin();
  Handle handle = start(root, {members[0], tag}, int64_t(members.size()), rank, lastGroupHasRoot);
  if (!root)
    lastGroupHasRoot = makings.back().hasRoot;
  return groups.emplace(members, handle).first->second;
}

Result<std::vector<GroupCommunicators::Handle>>
GroupCommunicators::ofGroups(const std::vector<std::vector<int64_t>> &some, int64_t tag) {
  std::vector<Handle> handles(some.size());
  for (size_t g = 0; g < some.size(); ++g)
    if (some[g].size() > 1) {
      auto made = ofGroup(some[g], tag);
      if (!made)
        return made.error();
      handles[g] = *made;
    }
  return handles;
}

Result<GroupCommunicators::Handle> GroupCommunicators::ofMessage(int64_t from, int64_t to, int64_t tag) {
  auto [found, isNew] = pairs.try_emplace({from, to, tag});
  if (!isNew)
    return found->second;
  if (messages.rank() == to) // the sender may bind later: the thread waits for its root information
    return found->second = start(nullptr, {from, tag}, 2, 1);
  auto root = newRoot();
  if (!root)
    return root.error();
  if (Status sent = sendRoot(*root, to, tag); !sent)
    return sent.error();
  return found->second = start(*root, {from, tag}, 2, 0);
}

} // namespace kerf::runtime
