import Testing

/// The tests whose point is a large send, one after the other: side by side they would only slow each other down.
@Suite(.serialized) struct CampaignTests {}
