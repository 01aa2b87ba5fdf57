//! What is refused of Endpoints and EndpointSlices.
