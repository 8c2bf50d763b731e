#pragma once

// Messages that carry file descriptors between processes of one machine, over Unix sockets. Needs nothing but the C
// library: programs inside the sandbox, which link none of ours, use it too.

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>

namespace hone {

inline constexpr int kMaxDescriptors = 8;  // of one message

/// Sends a message with copies of `count` descriptors. Bytes sent, which on a stream may be fewer, or -1 with errno.
/// Raises no SIGPIPE.
inline ssize_t SendMessage(int socket, const void* data, size_t bytes, const int* fds = nullptr, int count = 0) {
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))] = {};
  iovec part = {const_cast<void*>(data), bytes};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (count > kMaxDescriptors) {
    errno = EINVAL;
    return -1;
  }
  if (count > 0) {
    const size_t fd_bytes = static_cast<size_t>(count) * sizeof(int);
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fd_bytes);
    cmsghdr* item = CMSG_FIRSTHDR(&header);
    item->cmsg_level = SOL_SOCKET;
    item->cmsg_type = SCM_RIGHTS;
    item->cmsg_len = CMSG_LEN(fd_bytes);
    std::memcpy(CMSG_DATA(item), fds, fd_bytes);
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

struct ReceivedMessage {
  ssize_t bytes = -1;      // 0 at the end of the conversation; -1 with errno
  bool truncated = false;  // the message was longer than the room for it
  bool dropped = false;    // it carried more than there was room for: descriptors, which the kernel closed
  int count = 0;
  int fds[kMaxDescriptors];  // the caller's to close; not inherited by programs it starts
};

struct ReceiveOptions {
  bool wait = true;                    // false: EAGAIN where no message is there
  int descriptors = kMaxDescriptors;   // room for so many; 0: whoever sends cannot fill the table of open files
  ucred* sender = nullptr;             // of a socket with SO_PASSCRED: becomes the kernel's word on who sent it
};

/// Receives a message.
inline ReceivedMessage ReceiveMessage(int socket, void* data, size_t bytes, const ReceiveOptions& options = {}) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(kMaxDescriptors * sizeof(int))];
  const size_t fd_room = static_cast<size_t>(options.descriptors) * sizeof(int);
  iovec part = {data, bytes};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_controllen = (options.sender != nullptr ? CMSG_SPACE(sizeof(ucred)) : 0) + (fd_room > 0 ? CMSG_SPACE(fd_room) : 0);
  header.msg_control = header.msg_controllen > 0 ? control : nullptr;
  ReceivedMessage received;
  do {
    received.bytes = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | (options.wait ? 0 : MSG_DONTWAIT));
  } while (received.bytes < 0 && errno == EINTR);
  if (received.bytes < 0) return received;
  received.truncated = (header.msg_flags & MSG_TRUNC) != 0;
  received.dropped = (header.msg_flags & MSG_CTRUNC) != 0;
  for (cmsghdr* item = CMSG_FIRSTHDR(&header); item != nullptr; item = CMSG_NXTHDR(&header, item)) {
    if (item->cmsg_level != SOL_SOCKET) continue;
    if (item->cmsg_type == SCM_CREDENTIALS && options.sender != nullptr) {
      std::memcpy(options.sender, CMSG_DATA(item), sizeof *options.sender);
    }
    if (item->cmsg_type != SCM_RIGHTS) continue;
    const int sent = static_cast<int>((item->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    for (int i = 0; i < sent; ++i) {  // credentials that did not come leave their room to descriptors
      int fd;
      std::memcpy(&fd, CMSG_DATA(item) + static_cast<size_t>(i) * sizeof fd, sizeof fd);
      if (received.count < options.descriptors) {
        received.fds[received.count++] = fd;
      } else {
        close(fd);
        received.dropped = true;
      }
    }
  }
  return received;
}

}  // namespace hone
