//! The message handlers of a Compactor.

use actix::{ActorContext, Context, Handler};

use super::Compactor;
use super::compaction::CompactionRequest;
use super::messages::{CompactNow, Stop};

impl Handler<CompactNow> for Compactor {
    type Result = ();

    fn handle(&mut self, message: CompactNow, context: &mut Context<Compactor>) {
        let request = CompactionRequest {
            up_to: message.up_to,
            reclaim: message.reclaim,
        };
        self.start_compaction(request, Some(message.done), context);
    }
}

impl Handler<Stop> for Compactor {
    type Result = ();

    fn handle(&mut self, _: Stop, context: &mut Context<Compactor>) {
        context.stop();
    }
}
