package import PushCore

/// A statement on a campaign's partition or function, and its twins on those of the other lanes: what names its partition
/// opens no other.
package struct LaneStatements: Sendable {
    private let call: SQLStatement
    private let transactional: SQLStatement
    private let campaign: SQLStatement

    init(_ statement: SQLStatement) {
        campaign = statement
        call = Self.twin(of: statement, lane: .call)
        transactional = Self.twin(of: statement, lane: .transactional)
    }

    /// The statement on the partition of a lane.
    package subscript(lane: Lane) -> SQLStatement {
        switch lane {
        case .call: call
        case .transactional: transactional
        case .campaign: campaign
        }
    }

    private static func twin(of statement: SQLStatement, lane: Lane) -> SQLStatement {
        let text = statement.text.split(separator: "_campaign", omittingEmptySubsequences: false)
            .joined(separator: "_\(lane.name)")
        return SQLStatement(name: "\(statement.name)_\(lane.name)", text: text)
    }
}
