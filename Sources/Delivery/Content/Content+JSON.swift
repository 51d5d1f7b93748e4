import PushCore

extension Content {
    /// The buttons as the app gets them. Keys stand in the order in which jsonb keeps them, so that the text that FCM gets
    /// is the one that SQL measures.
    var actionsJSON: JSONValue {
        .array(
            actions.map { action in
                var object = JSONObject()
                object["id"] = .string(action.id)
                object["url"] = action.url.map(JSONValue.string)
                object["title"] = .string(action.title)
                return .object(object)
            }
        )
    }
}
