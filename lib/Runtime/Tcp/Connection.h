// SPDX-License-Identifier: Apache-2.0
// The messages between this rank and one other. A small message is sent at once, and the receiving process keeps it
// until a receive asks for it. A large message is offered first; its bytes are sent when a receive has memory for them,
// and go from the sender's memory to the socket and from the socket to the receiver's memory.
#pragma once

#include "Handshake.h"
#include <atomic>
#include <condition_variable>
#include <mutex>

namespace kerf::runtime::tcp {

inline constexpr size_t kMostEagerBytes = size_t(64) << 10; // larger messages are offered first
inline constexpr size_t kMostHeldBytes = kMostEagerBytes;   // held back until more messages follow
inline constexpr size_t kMostTogether = 64;                 // messages that one call of the system writes
inline constexpr size_t kBurstBytes = size_t(4) << 20;      // read or written before the next connection has its turn

/// The state that all connections of a rank share.
struct Shared {
  std::mutex mutex; // guards everything here and in connections that is not said to belong to the serving thread
  std::vector<int64_t> sending; // tags of messages whose buffers are still needed
  std::condition_variable sent; // signals that `sending` is shorter, or that the run has failed
  std::optional<Error> failure; // the error that ended the run
  int64_t lost = -1;            // the rank whose loss is that error, or -1
  std::atomic<bool> failed = false;
  Fd epoll;
  int64_t self = 0;

  /// Notes that a message has left its buffer.
  void finishSend(int64_t tag);
};

/// How reading from a connection ended.
struct ReadEnd {
  enum { Open, Closed, Damaged, Aborted } how = Open;
  std::string reason; // Closed: the system's text for an error, or empty
  Error error;        // Aborted: the error of the other rank
  int64_t lost = -1;  // Aborted: the rank whose loss is the error, or -1
};

class Connection {
public:
  Connection(Member member, Shared &shared) : who(std::move(member)), shared(shared) {}
  const Member &member() const { return who; }

  // These functions are called with the mutex held.
  Status startSend(std::span<const std::byte> bytes, int64_t tag);
  Status receive(std::unique_lock<std::mutex> &lock, std::span<std::byte> bytes, int64_t tag);
  /// Returns whether the other rank can send nothing more.
  bool hasEnded() const { return left || closed; }
  bool hasLeft() const { return left; }
  /// Returns whether the other rank tells the user about a failure: it still runs, or it ended knowing of the failure.
  bool mayTell() const { return knowsFailure || !hasEnded(); }
  bool isClosed() const { return closed; }
  bool hasUnsent() const { return !queue.empty(); }
  /// Returns whether all that is queued are small messages that may wait for others.
  bool mayHold() const { return queuedBytes < kMostHeldBytes; }
  /// Begins to watch the socket.
  void open();
  /// Ends the connection; nothing is read or written any more.
  void close();
  /// Ends all waits for this connection with the failure of the run, and drops what has not begun to be sent.
  void fail();
  /// Tells the other rank that the run has failed.
  void tellFailure();
  /// Ends the sending: says goodbye.
  void leave();
  /// Answers the goodbye of the other rank, which sends nothing more: says goodbye too. The connection closes once that
  /// is written, perhaps by another thread, because the other rank takes a connection that ends without it for a
  /// failure.
  void answerGoodbye();
  bool hasAnswered() const { return answered; }
  /// Takes the memory of a receive away from the serving thread, which calls this, after the run has failed.
  void detach();

  // These functions take the mutex.
  /// Writes what is queued, until the socket is full or about `most` bytes are written.
  void flush(size_t most);
  /// Reads what has arrived. Called by the serving thread only; `scratch` is memory for bytes that nobody wants.
  ReadEnd read(std::span<std::byte> scratch);

private:
  /// A receive that waits for its message.
  struct Waiting {
    int64_t tag = 0;
    std::span<std::byte> bytes;
    std::condition_variable done;
    bool isDone = false;
    std::optional<Error> error;
  };
  /// A message that has been queued for writing.
  struct Outgoing {
    HeaderBytes header;
    std::span<const std::byte> content;
    int64_t tag = 0;
    bool isMessage = false; // whether `sending` counts it
    size_t written = 0;     // bytes of the header and the content
  };
  /// A large message of this rank that has been offered.
  struct Offered {
    uint64_t id = 0;
    int64_t tag = 0;
    std::span<const std::byte> bytes;
  };
  /// A message that no receive has asked for.
  struct Arrived {
    Kind kind = Kind::Eager;
    int64_t tag = 0;
    uint64_t size = 0, id = 0;
    std::vector<std::byte> bytes;    // of a small message
    std::span<const std::byte> sent; // of a message of this rank to itself
  };
  /// A receive whose bytes have been asked for.
  struct Granted {
    uint64_t id = 0;
    Waiting *receive = nullptr;
  };
  /// The message that the serving thread is reading.
  struct Incoming {
    Header header;
    Waiting *receive = nullptr;   // whose memory is filled
    std::vector<std::byte> bytes; // filled instead, where no receive has asked yet
    bool isUnwanted = false;
    std::byte *to = nullptr; // where the next byte goes; null: nowhere
    size_t missing = 0;      // bytes that have not been read
  };

  void queueMessage(const Header &header, std::span<const std::byte> content, bool isMessage);
  void watch();
  void dropQueue(size_t kept);
  void takeWritten(size_t count);
  void finish(Waiting &receive, std::optional<Error> error);
  Waiting *takePosted(int64_t tag);
  Error wrongSize(size_t expected, size_t sent, int64_t tag) const;
  Error noSender() const;
  Status receiveArrived(std::unique_lock<std::mutex> &lock, std::vector<Arrived>::iterator found,
                        std::span<std::byte> bytes);
  Status await(std::unique_lock<std::mutex> &lock, Waiting &receive);
  bool parse();
  bool begin(const Header &header);
  bool beginEager();
  bool beginOffer();
  bool beginData();
  bool sendOffered(uint64_t id, bool isWanted);
  void end();
  void endEager();

  Member who;
  Shared &shared;
  std::vector<Outgoing> queue;
  size_t queuedBytes = 0; // of headers and contents in the queue
  size_t writing = 0;     // how many from the front of the queue a thread is writing
  uint32_t watched = 0;   // events of the socket that wake the serving thread; 0: it is not watched
  bool leaving = false, isShut = false, answered = false;
  bool left = false, knowsFailure = false, closed = false;
  uint64_t lastId = 0;
  std::vector<Offered> offered;
  std::vector<Waiting *> posted; // receives for which nothing has arrived, in their order
  std::vector<Granted> granted;
  std::vector<Arrived> arrived;              // in the order of arrival
  std::vector<std::vector<std::byte>> spare; // memory of small messages that have been received
  std::string failureText;

  // These belong to the serving thread.
  std::array<std::byte, 16384> buffer; // bytes in which the next header begins
  size_t held = 0;
  Incoming incoming;
  std::optional<Error> aborted; // the failure that the other rank has told
  int64_t abortedFor = -1;      // the rank whose loss is that failure, or -1
};

} // namespace kerf::runtime::tcp
