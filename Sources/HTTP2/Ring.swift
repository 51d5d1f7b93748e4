// A queue in a ring of memory that grows by doubling.
@safe
final class Ring<Element> {
    private var storage: UnsafeMutablePointer<Element>
    private(set) var capacity = 16
    private var head = 0
    private(set) var count = 0

    init() {
        unsafe storage = .allocate(capacity: capacity)
    }

    deinit {
        while popFirst() != nil {}
        unsafe storage.deallocate()
    }

    var isEmpty: Bool { count == 0 }
    var first: Element? { count == 0 ? nil : unsafe storage[head] }

    func append(_ element: Element) {
        if count == capacity { grow() }
        unsafe (storage + ((head + count) & (capacity - 1))).initialize(to: element)
        count += 1
    }

    func popFirst() -> Element? {
        guard count > 0 else { return nil }
        let element = unsafe (storage + head).move()
        head = (head + 1) & (capacity - 1)
        count -= 1
        return element
    }

    // Takes all elements out, in order.
    func removeAll() -> [Element] {
        var elements: [Element] = []
        elements.reserveCapacity(count)
        while let element = popFirst() { elements.append(element) }
        return elements
    }

    private func grow() {
        let larger = UnsafeMutablePointer<Element>.allocate(capacity: capacity * 2)
        let untilEnd = min(count, capacity - head)
        unsafe larger.moveInitialize(from: storage + head, count: untilEnd)
        unsafe (larger + untilEnd).moveInitialize(from: storage, count: count - untilEnd)
        unsafe storage.deallocate()
        unsafe storage = unsafe larger
        capacity *= 2
        head = 0
    }
}
